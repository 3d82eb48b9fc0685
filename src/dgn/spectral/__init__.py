"""From a graph to potentials: Laplacians, their eigenvectors, the Poisson equation, diffusion."""

from dgn.spectral.diffusion import diffusion_distance, gradient_step, heat_kernel
from dgn.spectral.laplacians import laplacian
from dgn.spectral.magnetic import MagneticDirections, magnetic_directions, magnetic_laplacian
from dgn.spectral.poisson import flow_potential, solve_laplacian
from dgn.spectral.potentials import Directions, directions, whole_eigenspaces

__all__ = [
    "Directions",
    "MagneticDirections",
    "diffusion_distance",
    "directions",
    "flow_potential",
    "gradient_step",
    "heat_kernel",
    "laplacian",
    "magnetic_directions",
    "magnetic_laplacian",
    "solve_laplacian",
    "whole_eigenspaces",
]
