"""``dgn directions``: the eigenvectors of a whole dataset."""


def command() -> None:
    """Add Laplacian eigenvectors and their fields to every graph of a file."""
    raise NotImplementedError
