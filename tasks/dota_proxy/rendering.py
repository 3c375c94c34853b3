"""Pictures of a battle: team 0 is blue and attacks to the right, team 1 is red.

Squares are towers, walls at both ends the ancients, discs with a number heroes, small discs creeps; a bar over each is
its health. A thin line is a blow, a thick bright one the nuke, a yellow ring a stunned hero. Below the field a light
dot means that a hero's nuke is ready. Dark cells are those that the team whose view it is does not see.
"""

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from tasks.dota_proxy import constants as c
from tasks.dota_proxy.state import State
from tasks.dota_proxy.torch_backend.observation import sees
from tasks.dota_proxy.torch_backend.targets import (
    building_in_reach,
    find_fronts,
    full_health,
    level_of,
    row_of,
    weakest_creep,
    weakest_hero,
)

CELL = 24  # pixels
HEADER, FOOTER = 34, 54
COLOURS = ((70, 140, 255), (240, 84, 60))
GROUND, LANE, RIVER, PANEL, TEXT = (38, 48, 40), (64, 70, 52), (44, 66, 84), (20, 22, 26), (228, 228, 220)
HEALTHY, HURT, GONE, STUNNED, NUKE = (96, 210, 96), (226, 190, 60), (60, 62, 66), (255, 226, 80), (255, 250, 190)
FOG = 110  # of 255


def one_game(state: State, game: int) -> State:
    """A game's state as torch tensors on the CPU, with a first axis of 1."""
    return State(**{name: torch.as_tensor(array[[game]]).cpu() for name, array in state.arrays().items()})


def draw_game(
    state: State,
    game: int = 0,
    previous: State | None = None,
    actions: np.ndarray | None = None,
    view: int | None = None,
    caption: str = "",
) -> np.ndarray:
    """A picture of one game: (height, width, 3) uint8.

    Args:
        state: of any backend.
        previous, actions: the state before the last tick and what was done in it, (games, 2, heroes): draws the blows.
        view: 0 or 1: what that team does not see is dark and empty. None shows everything.
        caption: written large over the middle.
    """
    painter = Painter(one_game(state, game), view)
    painter.paint_field()
    if previous is not None and actions is not None:
        painter.paint_blows(one_game(previous, game), torch.as_tensor(actions)[[game]].cpu())
    painter.paint_heroes()
    painter.paint_header()
    painter.paint_footer()
    painter.paint_caption(caption)
    return np.asarray(painter.image)


class Painter:
    """Paints one game; `state` as `one_game` gives it."""

    def __init__(self, state: State, view: int | None) -> None:
        self.state = state
        self.heroes, self.lanes = state.hero.shape[2], state.creep.shape[2]
        self.rows = c.ROWS_PER_LANE * self.lanes
        self.image = Image.new("RGB", (CELL * c.LENGTH, HEADER + CELL * self.rows + FOOTER), PANEL)
        self.pen = ImageDraw.Draw(self.image, "RGBA")
        self.font, self.small = ImageFont.load_default(15), ImageFont.load_default(11)
        self.view, self.seen = view, self.seen_cells(view)

    def seen_cells(self, view: int | None) -> np.ndarray:
        """(rows, LENGTH) bool, in team 0's frame."""
        if view is None:
            return np.ones((self.rows, c.LENGTH), bool)
        y, x = torch.meshgrid(torch.arange(self.rows), torch.arange(c.LENGTH), indexing="ij")
        x, y = (cells.int().flatten().expand(1, 2, -1) for cells in (x, y))
        s = self.state
        seen = sees(s.hero, s.creep, s.building, find_fronts(s.creep), x, y)[0, view].view(self.rows, c.LENGTH)
        return (seen if view == 0 else seen.flip(1)).numpy()

    def centre(self, team: int, x: int, y: int) -> tuple[float, float]:
        """Pixels of the middle of a team's cell (x, y)."""
        column = x if team == 0 else c.LAST - x
        return CELL * (column + 0.5), HEADER + CELL * (y + 0.5)

    def is_seen(self, team: int, x: int, y: int) -> bool:
        return bool(self.seen[y, x if team == 0 else c.LAST - x])

    def paint_field(self) -> None:
        self.paint_ground()
        self.paint_buildings()
        self.paint_creeps()

    def bar(self, x: float, y: float, width: float, share: float, height: int = 3) -> None:
        self.pen.rectangle((x - width / 2, y, x + width / 2, y + height), (0, 0, 0))
        if share > 0:
            colour = HEALTHY if share > 0.4 else HURT
            self.pen.rectangle((x - width / 2, y, x - width / 2 + width * min(share, 1), y + height), colour)

    def disc(self, x: float, y: float, radius: float, fill: tuple, outline: tuple = (0, 0, 0), width: int = 1) -> None:
        self.pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill, outline, width)

    def paint_ground(self) -> None:
        bottom = HEADER + CELL * self.rows
        self.pen.rectangle((0, HEADER, CELL * c.LENGTH, bottom), GROUND)
        for lane in range(self.lanes):
            _, y = self.centre(0, 0, row_of(lane))
            self.pen.rectangle((0, y - CELL * 0.7, CELL * c.LENGTH, y + CELL * 0.7), LANE)
        middle = CELL * c.LENGTH / 2
        self.pen.rectangle((middle - 5, HEADER, middle + 5, bottom), (*RIVER, 150))
        for team in range(2):
            x, _ = self.centre(team, 0, 0)
            inner = x + (CELL * (c.FOUNTAIN_X + 0.5)) * (1 - 2 * team)
            self.pen.rectangle((min(x, inner), HEADER, max(x, inner), bottom), (*COLOURS[team], 40))
        for y, x in np.argwhere(~self.seen):
            left, top = CELL * x, HEADER + CELL * y
            self.pen.rectangle((left, top, left + CELL - 1, top + CELL - 1), (0, 0, 0, FOG))

    def paint_buildings(self) -> None:
        bottom = HEADER + CELL * self.rows
        for team in range(2):
            colour, health = COLOURS[team], self.state.building[0, team].tolist()
            x, _ = self.centre(team, 0, 0)
            wall = x - (CELL / 2 - 5) * (1 - 2 * team)
            self.pen.rectangle((wall - 5, HEADER, wall + 5, bottom), GONE, (0, 0, 0))
            height = (bottom - HEADER) * health[-1] / (c.ANCIENT_HEALTH * self.heroes) / 2
            middle = (bottom + HEADER) / 2
            self.pen.rectangle((wall - 5, middle - height, wall + 5, middle + height), colour, (0, 0, 0))
            for lane in range(self.lanes):
                x, y = self.centre(team, c.TOWER_X, row_of(lane))
                if health[lane] == 0:
                    self.pen.rectangle((x - 9, y + 2, x + 9, y + 9), GONE, (0, 0, 0))
                    continue
                self.pen.rectangle((x - 10, y - 8, x + 10, y + 11), colour, (0, 0, 0))
                for battlement in (-8, 0, 8):
                    self.pen.rectangle((x + battlement - 2, y - 12, x + battlement + 2, y - 8), colour, (0, 0, 0))
                self.bar(x, y + 13, 26, health[lane] / (c.TOWER_HEALTH * self.heroes), 4)

    def paint_creeps(self) -> None:
        for team in range(2):
            for lane in range(self.lanes):
                for slot, (x, age, health) in enumerate(self.state.creep[0, team, lane].tolist()):
                    if health == 0 or not self.is_seen(team, x, row_of(lane)):
                        continue
                    across, down = self.centre(team, x, row_of(lane))
                    # Slots fan out: many creeps stand on one cell.
                    across += (slot % 2 - 0.5) * 9 - (3 if team == 0 else -3)
                    down += (slot // 2 - 1) * 10
                    self.disc(across, down, 4, COLOURS[team])
                    self.bar(across, down - 7, 9, health / (c.CREEP_HEALTH + c.CREEP_HEALTH_GROWTH * age), 2)

    def hero_place(self, state: State, team: int, n: int) -> tuple[float, float]:
        """Pixels; heroes of one cell stand side by side."""
        x, y = self.centre(team, *state.hero[0, team, n, [c.X, c.Y]].tolist())
        return x + (n - (self.heroes - 1) / 2) * 8, y + (7 if team else -7)

    def paint_heroes(self) -> None:
        full = full_health(self.state.hero[..., c.EXPERIENCE])[0].tolist()
        for team in range(2):
            for n, hero in enumerate(self.state.hero[0, team].tolist()):
                if hero[c.RESPAWN] > 0 or not self.is_seen(team, hero[c.X], hero[c.Y]):
                    continue
                x, y = self.hero_place(self.state, team, n)
                self.disc(
                    x, y, 9, COLOURS[team], STUNNED if hero[c.STUN] else (255, 255, 255), 3 if hero[c.STUN] else 2
                )
                self.pen.text((x, y), str(n + 1), (255, 255, 255), self.small, anchor="mm")
                self.bar(x, y - 15, 22, hero[c.HEALTH] / full[team][n], 4)

    def paint_blows(self, before: State, actions: torch.Tensor) -> None:
        x, y = before.hero[..., c.X], before.hero[..., c.Y]
        able = (before.hero[..., c.RESPAWN] == 0) & (before.hero[..., c.STUN] == 0)
        reach = c.ATTACK_REACH
        targets = {
            c.HIT_HERO: weakest_hero(before.hero, x, y, reach),
            c.HIT_CREEP: weakest_creep(before.creep, x, y, reach),
            c.HIT_BUILDING: building_in_reach(before.building, x, y),
            c.NUKE: torch.where(before.hero[..., c.COOLDOWN] == 0, weakest_hero(before.hero, x, y, c.NUKE_REACH), -1),
        }
        for team in range(2):
            for n in range(self.heroes):
                action = int(actions[0, team, n])
                target = int(targets[action][0, team, n]) if action in targets else -1
                seen = self.is_seen(team, int(x[0, team, n]), int(y[0, team, n]))
                if target < 0 or not seen or not able[0, team, n]:
                    continue
                start, enemy = self.hero_place(before, team, n), 1 - team
                if action == c.HIT_CREEP:
                    lane, slot = divmod(target, c.CREEP_SLOTS)
                    end = self.centre(enemy, int(before.creep[0, enemy, lane, slot, c.X]), row_of(lane))
                elif action == c.HIT_BUILDING:
                    end = self.centre(enemy, c.TOWER_X, row_of(target))
                    if target == self.lanes:
                        end = self.centre(enemy, 0, int(y[0, team, n]))
                else:
                    end = self.hero_place(before, enemy, target)
                colour, width = (NUKE, 5) if action == c.NUKE else ((*COLOURS[team], 220), 2)
                self.pen.line((*start, *end), colour, width)

    def paint_header(self) -> None:
        hero, width = self.state.hero[0], self.image.width
        deaths, gold, hits = (hero[..., field].sum(-1).tolist() for field in (c.DEATHS, c.GOLD, c.LAST_HITS))
        for team, (x, anchor) in enumerate(((10, "lm"), (width - 10, "rm"))):
            wealth = "" if self.view == 1 - team else f"   last hits {hits[team]}   gold {gold[team]}"
            text = ("BLUE", "RED")[team] + wealth
            self.pen.text((x, HEADER / 2), text, COLOURS[team], self.font, anchor=anchor)
        tick = int(self.state.clock[0, c.TICK])
        self.pen.text((width / 2, 11), f"{deaths[1]} : {deaths[0]}", TEXT, self.font, anchor="mm")
        self.pen.text((width / 2, 26), f"kills      tick {tick} / {c.TICK_LIMIT}", TEXT, self.small, anchor="mm")

    def paint_footer(self) -> None:
        """Each hero: health, level, ready nuke, or the ticks until it returns."""
        hero = self.state.hero[0]
        full, level = full_health(hero[..., c.EXPERIENCE]).tolist(), level_of(hero[..., c.EXPERIENCE]).tolist()
        top = HEADER + CELL * self.rows
        for team in range(2):
            for n, fields in enumerate(hero[team].tolist()):
                left = 12 + 56 * n if team == 0 else self.image.width - 12 - 56 * (self.heroes - n)
                x, y = left + 13, top + 17
                self.disc(x, y, 9, GONE if fields[c.RESPAWN] else COLOURS[team], (255, 255, 255))
                self.pen.text((x, y), str(n + 1), (255, 255, 255), self.small, anchor="mm")
                if fields[c.COOLDOWN] == 0 and not fields[c.RESPAWN] and self.view != 1 - team:
                    self.disc(x + 20, y - 5, 4, NUKE)
                note = f"back in {fields[c.RESPAWN]}" if fields[c.RESPAWN] else f"level {level[team][n]}"
                if self.view == 1 - team and not fields[c.RESPAWN]:
                    note = "seen" if self.is_seen(team, fields[c.X], fields[c.Y]) else "unseen"
                else:
                    self.bar(x + 8, top + 29, 40, fields[c.HEALTH] / full[team][n])
                self.pen.text((left, top + 40), note, TEXT, self.small, anchor="lm")

    def paint_caption(self, caption: str) -> None:
        if caption:
            x, y = self.image.width / 2, HEADER + CELL * self.rows / 2 - 30
            font = ImageFont.load_default(34)
            left, top, right, bottom = self.pen.textbbox((x, y), caption, font, anchor="mm")
            self.pen.rectangle((left - 14, top - 10, right + 14, bottom + 10), (*PANEL, 220), TEXT)
            self.pen.text((x, y), caption, TEXT, font, anchor="mm")
