"""What a claim sees: on a cluster one claim is decided in several homes, each of which does a part of it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Sight(Struct, frozen=True, array_like=True):
    """What of a home a claim may look at."""

    repeats: bool = True
    """Whether it gets what it holds already, when it is sent again."""
    takes: bool = True
    """Whether it takes anything new."""
    bound_score: int = 0
    bound_id: str = ""
    """The best work elsewhere, behind which nothing is taken; no id: there is no bound."""

    def hides(self, score: int, execution_id: str) -> bool:
        """Whether work lies behind the bound."""
        return bool(self.bound_id) and (score, execution_id) > (self.bound_score, self.bound_id)


EVERYTHING: Final = Sight()
