"""Small situations whose outcome can be worked out by hand."""

import numpy as np

from tasks.dota_proxy import Battle
from tasks.dota_proxy import constants as c
from tasks.dota_proxy.battle import StepResult
from tasks.dota_proxy.script import Script

BLUE, RED = 0, 1
FAR = 5  # from here heroes reach and share nothing, and no fountain heals them


def scene(backend: str = "numba", heroes: int = 1, tick: int = 1, shaping: float = 0.0) -> Battle:
    """One game without creeps, all heroes on (FAR, 0). At tick 1 no wave comes, no creep walks and nobody heals."""
    battle = Battle(heroes, [0], backend=backend, shaping=shaping)
    battle.state.creep[:] = 0
    battle.state.clock[:, c.TICK] = tick
    battle.state.hero[..., c.X] = FAR
    battle.state.hero[..., c.Y] = 0
    battle.observe()
    return battle


def put_hero(battle: Battle, team: int, n: int, x: int, y: int, **fields: int) -> None:
    """At (x, y) of the team's own frame; `fields` by their names in constants.py, in lower case."""
    for name, value in {"x": x, "y": y, **fields}.items():
        battle.state.hero[0, team, n, getattr(c, name.upper())] = value
    battle.observe()


def put_creep(battle: Battle, team: int, x: int, health: int, lane: int = 0, slot: int = 0, age: int = 0) -> None:
    for field, value in ((c.X, x), (c.AGE, age), (c.HEALTH, health)):
        battle.state.creep[0, team, lane, slot, field] = value
    battle.observe()


def play(battle: Battle, blue: dict[int, int] | None = None, red: dict[int, int] | None = None) -> StepResult:
    """A tick in which the named heroes act and all others stay."""
    actions = np.zeros((1, 2, battle.heroes), np.int64)
    for team, chosen in ((BLUE, blue or {}), (RED, red or {})):
        for n, action in chosen.items():
            actions[0, team, n] = action
    return battle.step(actions)


def hero(battle: Battle, team: int, field: int, n: int = 0) -> int:
    return int(battle.state.hero[0, team, n, field])


def creep_health(battle: Battle, team: int, lane: int = 0, slot: int = 0) -> int:
    return int(battle.state.creep[0, team, lane, slot, c.HEALTH])


def random_actions(battle: Battle, seed: int = 9) -> np.ndarray:
    """Legal ones, each game's own, the same in every batch."""
    script = Script(1.0, seed)
    return np.stack([np.asarray(script.act(battle, team)) for team in range(2)], 1)


def lively_actions(battle: Battle, seed: int = 9) -> np.ndarray:
    """Half by the script: its fights lead further into the rules than chance does."""
    script = Script(0.5, seed)
    return np.stack([np.asarray(script.act(battle, team)) for team in range(2)], 1)
