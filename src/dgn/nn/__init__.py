"""Layers and networks for PyG users."""

from dgn.nn.conv import DGNConv
from dgn.nn.edge_table import EdgeTable
from dgn.nn.encoders import ATOM_SIZES, BOND_SIZES, CategoryEncoder
from dgn.nn.ensemble import Branches
from dgn.nn.layer import DGNLayer, VirtualNode
from dgn.nn.linear import Linear
from dgn.nn.network import DGN
from dgn.nn.readout import read_out
from dgn.nn.structural_encoder import KindEncoder, StructureEncoder

__all__ = [
    "ATOM_SIZES",
    "BOND_SIZES",
    "DGN",
    "Branches",
    "CategoryEncoder",
    "DGNConv",
    "DGNLayer",
    "EdgeTable",
    "KindEncoder",
    "Linear",
    "StructureEncoder",
    "VirtualNode",
    "read_out",
]
