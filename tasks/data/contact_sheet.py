"""A sheet of generated images, to look at: one row a class."""

import argparse
from pathlib import Path

import torch

from tasks.data.composite import Composites


def write_sheet(composites: Composites, path: Path, classes: int, columns: int) -> None:
    """Writes the first `columns` images of each of the first `classes` classes to `path`, a PNG file."""
    from torchvision.utils import make_grid, save_image  # costs half a second, and training does without

    total = len(composites.labels.unique())
    images, labels = composites(composites.uniforms("sheet", 0, total * max(4 * columns, 32)))
    rows = [torch.nonzero(labels == label).flatten()[:columns] for label in range(classes)]
    path.parent.mkdir(parents=True, exist_ok=True)
    save_image(make_grid(images[torch.cat(rows)], columns, padding=2), path)


def sheet_from_command_line(composites: Composites, name: str) -> None:
    """The command that writes a sheet of `composites`."""
    parser = argparse.ArgumentParser(description="Writes a sheet of generated images, one row a class.")
    parser.add_argument("path", nargs="?", type=Path, default=Path(f"{name}.png"), help="of the PNG file")
    parser.add_argument("--classes", type=int, default=10, help="rows (default 10)")
    parser.add_argument("--columns", type=int, default=16, help="images of each class (default 16)")
    arguments = parser.parse_args()
    write_sheet(composites, arguments.path, arguments.classes, arguments.columns)
    print(f"Written: {arguments.path}")
