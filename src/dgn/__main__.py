"""A first look: the directions of caffeine, and what smoothing and differentiating along them does."""

import torch

import dgn

# The heavy atoms of caffeine and its bonds.
ATOMS = "CNCNCCCONCONCC"
BONDS = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (6, 8), (8, 9), (9, 10), (9, 11), (11, 12)]
BONDS += [(8, 13), (5, 1), (11, 4)]
ELECTRONEGATIVITY = {"C": 2.55, "N": 3.04, "O": 3.44}


def main() -> None:
    """Print potentials of caffeine and the directional aggregations of its atoms' electronegativities."""
    bonds = torch.tensor(BONDS).T
    graph = dgn.as_graph(torch.cat([bonds, bonds.flip(0)], dim=1), len(ATOMS))
    directions = dgn.directions(graph, k=2)
    field = dgn.gradient(directions.potential, graph)
    signal = torch.tensor([ELECTRONEGATIVITY[atom] for atom in ATOMS], dtype=torch.float64)
    smooth = dgn.smoothing(field, graph)(signal)
    slope = dgn.derivative(field, graph)(signal).abs()
    print("Caffeine: electronegativity smoothed (av) and differentiated (dx) along two directions")
    print("atom      phi_1   phi_2  signal     av1     av2     dx1     dx2")
    rows = torch.cat([directions.potential, signal[:, None], smooth, slope], dim=1).tolist()
    for number, (atom, row) in enumerate(zip(ATOMS, rows, strict=True)):
        print(f"{number:>3} {atom}  " + " ".join(f"{value:7.3f}" for value in row) + "")
    values = ", ".join(f"{value:.4f}" for value in directions.eigenvalues[0].tolist())
    print(f"eigenvalues {values}; nothing repeated: {not bool(directions.repeated().any())}")


if __name__ == "__main__":
    main()
