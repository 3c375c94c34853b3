"""Dota-proxy: a small battle of two teams that plays as Dota does, made for batches of thousands of games."""

from tasks.dota_proxy.battle import Battle, StepResult

__all__ = ["Battle", "StepResult"]
