"""Aggregation: names are parsed into a plan, which one of three backends runs in one pass."""

from dgn.aggregation import custom_op as _custom_op  # noqa: F401, registers what tracing calls
from dgn.aggregation.dispatch import BACKENDS, Backend, aggregate
from dgn.aggregation.messages import Messages
from dgn.aggregation.plan import Plan, Weights, make_plan
from dgn.aggregation.scalers import SCALERS, ScalerKey, average_log_degree, degree_scalers

__all__ = [
    "BACKENDS",
    "SCALERS",
    "Backend",
    "Messages",
    "Plan",
    "ScalerKey",
    "Weights",
    "aggregate",
    "average_log_degree",
    "degree_scalers",
    "make_plan",
]
