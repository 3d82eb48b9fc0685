"""Layers and networks for PyG users."""

from dgn.nn.blocks.virtual_node import VirtualNode
from dgn.nn.conv import DGNConv
from dgn.nn.edge_features import EdgeTable
from dgn.nn.encoders import ATOM_SIZES, BOND_SIZES, CategoryEncoder, EdgeTypeEncoder, GraphEncoder, StructuralEncoder
from dgn.nn.ensemble import Ensemble
from dgn.nn.layer import DGNLayer
from dgn.nn.linear import Linear
from dgn.nn.network import DGN
from dgn.nn.readout import pool
from dgn.nn.settings import NetworkSettings

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
    "GraphEncoder",
    "Linear",
    "NetworkSettings",
    "StructuralEncoder",
    "VirtualNode",
    "pool",
]
