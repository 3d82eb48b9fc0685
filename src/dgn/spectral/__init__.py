"""From a graph to potentials: Laplacians, their eigenvectors, and diffusion along them."""

from dgn.spectral.diffusion import diffusion_distance, gradient_step, heat_kernel
from dgn.spectral.laplacians import laplacian
from dgn.spectral.poisson import solve_laplacian
from dgn.spectral.potentials import Directions, directions, whole_eigenspaces

__all__ = [
    "Directions",
    "diffusion_distance",
    "directions",
    "gradient_step",
    "heat_kernel",
    "laplacian",
    "solve_laplacian",
    "whole_eigenspaces",
]
