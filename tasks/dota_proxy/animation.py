"""Writes an animated picture of one game of the script against itself.

python -m tasks.dota_proxy.animation PATH [--heroes 1|5] [--seed 0] [--view 0|1]
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from tasks.dota_proxy.battle import Battle
from tasks.dota_proxy.constants import LANES
from tasks.dota_proxy.rendering import draw_game
from tasks.dota_proxy.script import Script
from tasks.dota_proxy.state import State

FRAME_MS, LAST_FRAME_MS = 90, 3000
COLOURS = 64  # of the palette: flat areas, small files


OUTCOME = {1: "Blue wins", -1: "Red wins", 0: "A draw"}


def play_game(heroes: int, seed: int, view: int | None = None) -> tuple[list[np.ndarray], int]:
    """Frames of a game, (height, width, 3) uint8 each, and its winner as in StepResult."""
    battle, script = Battle(heroes, [0], seed), Script(seed=seed)
    frames, before, actions = [], None, None
    while True:
        state = State(**battle.state_dict())
        frames.append(draw_game(state, 0, before, actions, view))
        before, actions = state, np.stack([script.act(battle, team) for team in range(2)], 1)
        result = battle.step(actions)
        if result.done[0]:  # the battle's state is already the next episode's
            winner = int(result.winner[0])
            frames.append(draw_game(before, 0, before, actions, view, OUTCOME[winner]))
            return frames, winner


def write_animation(path: Path, frames: list[np.ndarray]) -> None:
    """A GIF that repeats; one palette for all frames, so that the parts which do not change cost nothing."""
    images = [Image.fromarray(frame) for frame in frames]
    palette = images[len(images) // 2].quantize(COLOURS, dither=Image.Dither.NONE)
    images = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    durations = [FRAME_MS] * (len(images) - 1) + [LAST_FRAME_MS]
    images[0].save(path, save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=False)


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes an animated picture of the script against itself.")
    parser.add_argument("path", type=Path, help="of the GIF")
    parser.add_argument("--heroes", type=int, choices=sorted(LANES), default=1, help="of a team")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--view", type=int, choices=(0, 1), help="show only what this team sees")
    arguments = parser.parse_args()
    frames, winner = play_game(arguments.heroes, arguments.seed, arguments.view)
    write_animation(arguments.path, frames)
    size = arguments.path.stat().st_size / 1e6
    print(f"{arguments.path}: {len(frames)} frames, {size:.1f} MB. {OUTCOME[winner]}.")


if __name__ == "__main__":
    main()
