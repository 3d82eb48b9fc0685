"""Layers and networks for PyG users."""

from dgn.nn.conv import DGNConv
from dgn.nn.edge_table import EdgeTable
from dgn.nn.encoders import ATOM_SIZES, BOND_SIZES, CategoryEncoder
from dgn.nn.ensemble import Ensemble
from dgn.nn.layer import DGNLayer, VirtualNode
from dgn.nn.linear import Linear
from dgn.nn.network import DGN
from dgn.nn.readout import pool
from dgn.nn.settings import NetworkSettings
from dgn.nn.structural_encoder import EdgeTypeEncoder, StructuralEncoder

__all__ = [
    "ATOM_SIZES",
    "BOND_SIZES",
    "DGN",
    "CategoryEncoder",
    "DGNConv",
    "DGNLayer",
    "EdgeTable",
    "EdgeTypeEncoder",
    "Ensemble",
    "Linear",
    "NetworkSettings",
    "StructuralEncoder",
    "VirtualNode",
    "pool",
]
