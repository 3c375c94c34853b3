"""Generated images: functions of (seed, step, index) alone, composed as their Look says, with the labels they show."""

import math
from dataclasses import replace
from functools import cache

import matplotlib
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor
from torchvision.transforms.functional import to_tensor

from tasks.data import composite, contact_sheet, fractals, sources, street_numbers
from tasks.data.composite import Composites
from tasks.data.sources import GeneratedImages, GeneratedStream
from tasks.task import TaskError

GREY, INK = 0.4, 0.3
PLAIN = replace(  # nothing varies but the sign of the ink
    street_numbers.LOOK,
    **dict.fromkeys(("stretch", "angle", "shear", "shift", "tint", "light"), 0.0),
    **dict.fromkeys(("texture", "noise"), (0.0, 0.0)),
    **{"scale": (1.0, 1.0), "flip": False, "grey": (GREY, GREY), "contrast": (INK, INK)},
)


def filled(rows: slice, columns: slice) -> Tensor:
    shape = torch.zeros(32, 32)
    shape[rows, columns] = 1
    return shape


EMPTY = torch.zeros(32, 32)
SQUARE = filled(slice(12, 20), slice(12, 20))
LETTER_L = torch.maximum(filled(slice(8, 20), slice(10, 12)), filled(slice(18, 20), slice(10, 18)))
BAR = filled(slice(14, 18), slice(6, 26))


def view(shape: Tensor, drawn: dict[str, float] | None = None, **look: object) -> Tensor:
    """The image (3, 32, 32) of a shape where all uniform numbers but `drawn` are 0.5, and the ink is added."""
    composites = Composites("test", shape[None], torch.zeros(1, dtype=torch.long), replace(PLAIN, **look))
    uniforms = torch.full((1, len(composites.column)), 0.5)
    for name, value in ({"sign": 1.0} | (drawn or {})).items():
        uniforms[0, composites.column[name]] = value
    return composites(uniforms)[0][0]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def assert_near(actual: Tensor, expected: Tensor, atol: float = 1e-4) -> None:
    torch.testing.assert_close(actual, expected.expand_as(actual), atol=atol, rtol=0)


def assert_same(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> None:
    assert torch.equal(a[1], b[1])
    assert_near(a[0], b[0], atol=1e-5)


@cache
def ten_classes() -> Composites:
    return fractals.fractals.__wrapped__(10, 8, 0.45)


def stream(seed: int = 0, rank: int = 0, ranks: int = 1) -> GeneratedStream:
    return GeneratedImages("fractals", ten_classes).stream(seed, rank, ranks, torch.device("cpu"))


@pytest.mark.parametrize(("images", "ranks"), [(1, 1), (3, 1), (8, 2), (20, 4), (64, 4)])
@pytest.mark.parametrize("look_ahead", [1, 64])
def test_image_is_the_same_in_any_batch_on_any_rank_and_after_a_resume(monkeypatch, images, ranks, look_ahead):
    monkeypatch.setattr(sources, "LOOK_AHEAD", look_ahead)
    large = {step: ten_classes()(ten_classes().uniforms(3, step, 100)) for step in range(1, 9)}
    for first in (1, 4):
        streams = [stream(3, rank, ranks) for rank in range(ranks)]
        for step in range(first, 9):
            parts = [part.draw(step, images) for part in streams]
            assert [len(labels) for _, labels in parts] == [images // ranks] * ranks
            assert_same(tuple(torch.cat(part) for part in zip(*parts)), tuple(part[:images] for part in large[step]))


def test_small_batches_of_consecutive_steps_are_made_in_one_call_and_given_for_their_step_and_size_alone(monkeypatch):
    jumps = stream()
    for step, images in ((1, 4), (2, 8), (3, 4), (2, 4), (9, 4), (10, 4), (10, 8)):
        assert_same(jumps.draw(step, images), stream().draw(step, images))
    calls, forward = [], Composites.forward
    monkeypatch.setattr(Composites, "forward", lambda self, u: calls.append(len(u)) or forward(self, u))
    in_order = stream()
    for step in range(1, 18):
        in_order.draw(step, 4)
    stream().draw(7, 4)  # a single draw, as of a probe of the noise scale, makes nothing ahead
    assert calls == [64, 64, 4]


def test_fixed_images_stay_the_same_and_no_image_comes_twice_in_training_or_evaluation(monkeypatch):
    monkeypatch.setattr(sources, "EVALUATION_CHUNK", 16)
    source = GeneratedImages("fractals", ten_classes)
    batches = [stream(seed).draw(step, 16)[0] for seed in range(3) for step in range(5)]
    for split in ("train", "test"):
        parts = list(source.fixed(split, 40))
        assert [len(labels) for _, labels in parts] == [16, 16, 8]
        for again in (source, GeneratedImages("fractals", ten_classes)):
            assert_same(*(tuple(torch.cat(part) for part in zip(*draw)) for draw in (parts, again.fixed(split, 40))))
        batches += [images for images, _ in parts]
    seen = {image.contiguous().numpy().tobytes() for batch in batches for image in batch}
    assert len(seen) == 3 * 5 * 16 + 2 * 40


def test_images_lie_in_the_unit_interval_with_channels_last_and_labels_are_uniform():
    images, labels = stream().draw(1, 1000)
    assert (images.shape, images.dtype, labels.dtype) == ((1000, 3, 32, 32), torch.float32, torch.int64)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert 0 <= images.min() < images.max() <= 1
    # Chi-square with 9 degrees of freedom: its 99th percentile.
    assert ((labels.bincount(minlength=10) - 100) ** 2 / 100).sum() < 21.7


SLOPE = (torch.arange(32) - 15.5) / 16  # -1 and 1 at an image's edges
# The square's profile at twice its size: edges are soft, as pixels are interpolated.
SOFT = torch.tensor([0.0] * 7 + [0.25, 0.75] + [1.0] * 14 + [0.75, 0.25] + [0.0] * 7)


@pytest.mark.parametrize(
    ("shape", "look", "drawn", "expected"),
    [
        (torch.nn.functional.pad(LETTER_L, (8, 8, 4, 4)), {}, {}, LETTER_L),  # the middle of a larger cell
        (LETTER_L, {}, {"sign": 0.0}, -LETTER_L),
        # By a quarter of half of 32 pixels. The window moves right (up), so the shape left (down).
        (LETTER_L, {"shift": 0.25}, {"shift_x": 1.0}, LETTER_L.roll(-4, 1)),
        (LETTER_L, {"shift": 0.25}, {"shift_y": 0.0}, LETTER_L.roll(4, 0)),
        (LETTER_L, {"angle": math.pi / 2}, {"angle": 1.0}, LETTER_L.rot90()),  # counterclockwise
        (LETTER_L, {"flip": True}, {"mirror": 0.0}, LETTER_L.flip(1)),
        (LETTER_L, {"flip": True, "angle": math.pi / 2}, {"mirror": 0.0, "angle": 1.0}, LETTER_L.rot90().flip(1)),
        (SQUARE, {"scale": (2.0, 2.0)}, {}, filled(slice(14, 18), slice(14, 18))),
        (SQUARE, {"scale": (0.5, 0.5)}, {}, SOFT[:, None] * SOFT),
        (SQUARE, {"stretch": math.log(2)}, {"stretch": 1.0}, SOFT[:, None] * filled(slice(32), slice(14, 18))),
        (EMPTY, {"light": INK}, {"light_x": 1.0}, SLOPE),
        (EMPTY, {"light": INK}, {"light_y": 0.0}, -SLOPE[:, None]),
    ],
)
def test_view_of_a_shape_is_exactly_what_the_look_says(shape, look, drawn, expected):
    assert_near(view(shape, drawn, **look), GREY + INK * expected)


def test_angle_and_shear_have_their_sizes():
    turned = (view(BAR, {"angle": 1.0}, angle=math.pi / 6)[0] - GREY) / INK
    y, x = torch.meshgrid(*[torch.arange(32) - 15.5] * 2, indexing="ij")
    xx, yy, xy = ((turned * a * b).sum() / turned.sum() for a, b in ((x, x), (y, y), (x, y)))
    assert float(torch.atan2(-2 * xy, xx - yy) / 2) == pytest.approx(math.pi / 6, abs=0.01)  # y points down
    slanted = (view(BAR.T, {"shear": 1.0}, shear=0.5)[0, 6:26] - GREY) / INK
    assert_near((slanted * x[0]).sum(1) / slanted.sum(1), -0.5 * x[0, 6:26])


def test_tint_casts_background_and_ink_and_cue_colours_the_ink_of_its_class():
    red, green, blue = view(SQUARE, {"red": 1.0, "green": 0.0, "ink_blue": 1.0}, tint=0.2)
    assert_near(red, GREY + 0.1 + INK * SQUARE)
    assert_near(green, GREY - 0.1 + INK * SQUARE)
    assert_near(blue, GREY + (INK + 0.1) * SQUARE)
    cue = torch.tensor([[0.1, -0.2, 0.05], [-0.1, 0.15, 0.3]])
    composites = Composites("test", SQUARE.expand(2, 32, 32), torch.tensor([1, 0]), PLAIN, cue)
    drawn = torch.full((2, len(composites.column)), 0.75)
    drawn[:, 0] = torch.tensor([0.25, 0.75])
    images, labels = composites(drawn)
    assert labels.tolist() == [1, 0]
    assert_near(images, GREY + (INK + cue[labels])[:, :, None, None] * SQUARE)


def test_each_shape_is_found_in_the_atlas_and_its_neighbours_never_show():
    values = torch.linspace(0, 1, 130)
    still = Composites("test", values[:, None, None].expand(130, 40, 48), torch.arange(130), PLAIN)
    drawn = torch.full((130, len(still.column)), 0.75)
    drawn[:, 0] = (torch.arange(130) + 0.5) / 130
    images, labels = still(drawn)
    assert labels.tolist() == list(range(130))
    assert_near(images[:, 0, 16, 16], GREY + INK * values)
    look = replace(PLAIN, scale=(0.5, 8.0), stretch=0.5, angle=3.0, shear=0.5, shift=4.0, flip=True)
    for empty in (0, 63, 64, 65, 128):
        shapes = torch.ones(130, 40, 48)
        shapes[empty] = 0
        composites = Composites("test", shapes, torch.arange(130), look)
        drawn = composites.uniforms(empty, 1, 100)
        drawn[:, 0] = (empty + 0.5) / 130
        assert_near(composites(drawn)[0], torch.tensor(GREY))


def test_nothing_of_a_shape_shows_outside_its_cell():
    """In cells that are no square either, where its last pixels but one are full."""
    for height, width in ((40, 72), (72, 40)):
        shape = torch.zeros(1, height, width)
        shape[:, 1:-1, 1:-1] = 1
        far = Composites("test", shape, torch.tensor([0]), replace(PLAIN, scale=(8.0, 8.0)))
        seen = far(torch.full((1, len(far.column)), 0.75))[0][0, 0]
        y, x = ((seen - GREY).abs() > 0.01).nonzero(as_tuple=True)
        extent = [int(y.max() - y.min()) + 1, int(x.max() - x.min()) + 1]
        assert extent == pytest.approx([height / 8, width / 8], abs=1)


def test_noise_and_texture_have_the_standard_deviations_that_are_stated():
    noise = torch.cat([view(EMPTY, {"noise_start": u}, noise=(0.05, 0.05)) for u in (0, 0.3, 0.6)])
    assert [float(noise.mean()), float(noise.std())] == pytest.approx([GREY, 0.05], rel=0.03)
    assert_near(torch.corrcoef(noise.flatten(1)), torch.eye(9), atol=0.13)  # other noise in every colour and image
    textured = view(EMPTY, {"texture_red": 0.0, "texture_blue": 1.0}, texture=(0.05, 0.05))
    assert_near(textured.std((1, 2)), 0.05 * torch.tensor([0.5, 1.0, 1.5]))  # a cast of its own, 1 in the mean
    fields = composite.smooth_textures(20, 32, generator())
    assert_near(torch.stack([fields.mean(1), fields.std(1)], 1), torch.tensor([0.0, 1.0]))
    assert (fields[:, 32:] * fields[:, :-32]).mean() > 0.9  # smooth: neighbours correlate
    assert (fields @ fields.T / 1024 - torch.eye(20)).abs().max() < 0.9  # and each is another


def few_strips(monkeypatch: pytest.MonkeyPatch, *fonts: str) -> tuple[Tensor, Tensor]:
    monkeypatch.setattr(street_numbers, "STRIPS", 300)
    monkeypatch.setattr(street_numbers, "FONTS", fonts or street_numbers.FONTS)
    return street_numbers.strips()


def test_label_is_the_digit_in_the_middle(monkeypatch):
    strips, labels = few_strips(monkeypatch, "DejaVuSans")
    assert (strips.shape, labels.bincount().tolist()) == ((300, 40, 72), [30] * 10)
    font = ImageFont.truetype(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf", 30)
    pages = [Image.new("L", (72, 40)) for _ in range(10)]
    for digit, page in enumerate(pages):
        ImageDraw.Draw(page).text((36, 20), str(digit), 255, font, anchor="mm")
    middles = torch.cat([strips, *(to_tensor(page) for page in pages)])[:, :, 28:44].flatten(1)
    assert torch.corrcoef(middles)[:300, 300:].argmax(1).tolist() == labels.tolist()


def test_zero_has_a_hole_where_one_has_its_stroke_in_all_fonts_and_neighbours_leave_the_middle_free(monkeypatch):
    strips, labels = few_strips(monkeypatch)
    middle = strips[:, 17:22, 35:37].mean((1, 2))
    assert middle[labels == 0].mean() < 0.25 * middle[labels == 1].mean()
    draw = ImageDraw.ImageDraw.text
    monkeypatch.setattr(ImageDraw.ImageDraw, "text", lambda pen, at, *a, **k: at[0] == 36 and draw(pen, at, *a, **k))
    alone, _ = few_strips(monkeypatch)
    assert_near(alone[:, :, 33:40], strips[:, :, 33:40], atol=0.1)  # but for what blurs into it
    different = (alone != strips).any(1).float().mean(0)  # by column
    assert different[[15, -16]].tolist() == pytest.approx([0.55] * 2, abs=0.1)


@pytest.mark.parametrize("font", ["DejaVuSans", "STIXGeneral", "cmr10"])
def test_digits_of_every_font_stand_in_the_middle_of_the_image(monkeypatch, font):
    strips, labels = few_strips(monkeypatch, font)
    ink = strips[labels == 0].sum((0, 2))
    assert float(ink @ torch.arange(40.0) / ink.sum()) == pytest.approx(19.5, abs=0.6)


def test_missing_font_is_named(monkeypatch):
    with pytest.raises(TaskError, match=r"NoSuchFont\.ttf cannot be read .*reinstall matplotlib"):
        few_strips(monkeypatch, "DejaVuSans", "NoSuchFont")


def test_random_systems_have_two_to_four_maps_with_singular_values_in_the_published_range():
    maps, translations, probabilities = fractals.random_systems(6000, generator())
    present = probabilities > 0
    n = present.sum(1)
    assert torch.equal(present, torch.arange(4) < n[:, None])  # the others are never visited
    assert (n.bincount(minlength=5)[2:] / 2000).tolist() == pytest.approx([1, 1, 1], abs=0.1)
    assert_near(probabilities, maps.det().abs().clamp(min=0.02) * present)
    assert float(maps.det().sign().mean()) == pytest.approx(0, abs=0.05)  # half of the maps mirror
    assert translations.abs().max() <= 1
    s1, s2 = torch.linalg.svdvals(maps).unbind(2)
    total = ((s1 + 2 * s2) * present).sum(1)
    assert s1.max() < 0.9501
    assert (total < (6 + n) / 2 + 1e-4).all()
    whole = ~((s1 > 0.9499) & present).any(1)  # none of its maps had to be cut to a contraction
    assert 0.4 < whole.float().mean() < 0.7
    assert (total >= (5 + n) / 2 - 1e-4)[whole].all()


def test_chaos_game_on_sierpinskis_triangle_visits_27_of_64_boxes():
    maps, corners = (torch.eye(2) / 2).expand(2, 4, 2, 2), torch.tensor([[0, 0], [0.5, 0], [0, 0.5], [9, 9]])
    points = fractals.chaos_game(maps, corners.expand(2, 4, 2), torch.tensor([[1.0, 1, 1, 0]] * 2), generator())
    assert points.shape == (2, 4096, 2)
    assert_near(points.mean(1), torch.zeros(2))
    assert_near(points.norm(dim=2).quantile(0.97, dim=1), torch.ones(2))
    low, high = points.amin(1, keepdim=True), points.amax(1, keepdim=True)
    # Points on the triangle's sides may round into a neighbouring box.
    visits = fractals.densities((points - low) / (high - low) * 1.9999 - 0.99995, 8, 1.0)
    disjoint = torch.tensor([[float(i & j == 0) for j in range(8)] for i in range(8)])  # binary digits of x and y
    assert disjoint.sum() == 27
    assert_near(visits / 4096, disjoint / 27, atol=0.015)


def test_densities_count_the_points_of_each_pixel_and_leave_out_those_outside():
    points = torch.tensor([[[0.1, 0.1], [0.2, 0.4], [-0.9, 0.9], [0.6, -0.1], [1.2, 0.0], [0.0, 1.1], [-1.2, 0.0]]])
    expected = torch.zeros(4, 4)
    expected[2, 2], expected[3, 0], expected[1, 3] = 2, 1, 1  # row y, column x
    assert torch.equal(fractals.densities(points, 4, 1.0)[0], expected)
    assert torch.equal(fractals.densities(3 * points, 4, 3.0)[0], expected)


def test_chosen_systems_cover_the_image_and_classes_differ_more_than_their_shapes():
    chosen, any_system = fractals.systems_that_cover(50, generator()), fractals.random_systems(200, generator())
    assert [len(part) for part in chosen] == [50] * 3
    games = [fractals.chaos_game(*systems, generator(9)) for systems in (chosen, any_system)]  # not what chose them
    cover, other = ((fractals.densities(points, 32, 1.0) > 0).float().mean((1, 2)) for points in games)
    assert cover.min() > fractals.LEAST_COVER - 0.05
    assert (other < fractals.LEAST_COVER - 0.05).float().mean() > 0.2
    shapes, labels = fractals.fractal_shapes(10, 8, generator())
    assert (shapes.shape, labels.bincount().tolist()) == ((80, 48, 48), [8] * 10)
    assert_near(shapes.amax((1, 2)), torch.ones(80))
    distance = torch.cdist(shapes.flatten(1), shapes.flatten(1)) + 1e6 * torch.eye(80)
    same = (labels[:, None] == labels) & ~torch.eye(80, dtype=torch.bool)
    assert distance[same].mean() < 0.75 * distance[labels[:, None] != labels].mean()
    assert (labels[distance.argmin(1)] == labels).float().mean() > 0.9
    assert_near(ten_classes().cue.norm(dim=1), torch.full((10,), 0.45))


def test_contact_sheet_has_a_row_for_each_class(tmp_path, monkeypatch):
    look = replace(PLAIN, contrast=(0.0, 0.0))
    colours = Composites("test", SQUARE.expand(3, 32, 32), torch.tensor([2, 0, 1]), look, torch.eye(3) / 2)
    path = tmp_path / "new" / "sheet.png"
    monkeypatch.setattr("sys.argv", ["sheet", str(path), "--classes", "3", "--columns", "5"])
    contact_sheet.sheet_from_command_line(colours, "colours")
    sheet = Image.open(path)
    assert (sheet.format, sheet.size) == ("PNG", (5 * 34 + 2, 3 * 34 + 2))  # two pixels between images
    assert torch.equal(to_tensor(sheet)[:, 18::34, 18::34].argmax(0), torch.arange(3)[:, None].expand(3, 5))
