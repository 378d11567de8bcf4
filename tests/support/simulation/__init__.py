"""Random sequences of commands, sent to several stores at once: whatever one answers, all must answer."""

from support.simulation.campaign import run_seed
from support.simulation.compare import Disagreement
from support.simulation.fleet import Fleet, open_fleet
from support.simulation.simulation import Simulation

__all__ = ["Disagreement", "Fleet", "Simulation", "open_fleet", "run_seed"]
