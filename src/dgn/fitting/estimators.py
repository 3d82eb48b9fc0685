"""Estimators like those of scikit-learn, on lists of SMILES."""

import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dgn.fitting.columns import Target, Task
from dgn.fitting.fit import FitOptions, fit_molecules
from dgn.fitting.model import Model, Prediction, load_model
from dgn.fitting.predict import predict_smiles
from dgn.fitting.rows import read_molecules
from dgn.fitting.split import PARTS, at_random, lack

__all__ = ["DGNClassifier", "DGNRegressor"]

Array = NDArray[Any]


class _OnSmiles(BaseEstimator):  # type: ignore[misc]
    """What both estimators share."""

    _task: Task

    def __init__(
        self,
        members: int = 5,
        epochs: int | None = None,
        validation_fraction: float = 0.1,
        random_state: int = 0,
        device: str = "auto",
        search: int = 0,
    ) -> None:
        self.members = members
        self.epochs = epochs
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.device = device
        self.search = search

    def _fit(self, smiles: Sequence[str], values: torch.Tensor, targets: tuple[Target, ...]) -> None:
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction: expected between 0 and 1, got {self.validation_fraction}; for example 0.1"
            )
        molecules, problems = read_molecules(smiles, values, range(len(smiles)))
        for problem in problems:
            if problem.done != "kept":
                warnings.warn(str(problem).replace("line", "place"), stacklevel=3)
        shares = (1 - self.validation_fraction, self.validation_fraction, 0.0)
        part = at_random(molecules, self._task, self.random_state, shares).clamp(max=1)
        wrong = lack(part, molecules.values, self._task, PARTS[:2])
        if wrong:
            raise ValueError(
                f"validation_fraction: expected molecules to train and to validate, got {wrong}; change it"
            )
        options = FitOptions(self.members, self.epochs, self.random_state, self.device, self.search)
        with tempfile.TemporaryDirectory() as folder:
            self.model_ = fit_molecules(molecules, part, self._task, targets, "smiles", options, Path(folder)).model

    def _predict(self, smiles: Sequence[str]) -> Prediction:
        check_is_fitted(self, "model_")
        prediction, problems = predict_smiles(self.model_, _texts(smiles))
        bad = [str(number) for number, problem in enumerate(problems) if problem]
        if bad:
            warnings.warn(
                f"{len(bad)} SMILES cannot be read, NaN stands for them (places {', '.join(bad[:8])})", stacklevel=3
            )
        return prediction

    def save(self, folder: str | Path) -> None:
        """Write weights and configuration into a folder; ``dgn predict`` reads it too."""
        check_is_fitted(self, "model_")
        parameters = {**self.get_params(), "classes": [str(each) for each in getattr(self, "classes_", ())]}
        replace(self.model_, facts={**self.model_.facts, "estimator": parameters}).save(Path(folder))

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> Self:
        """Read what :meth:`save`, or ``dgn fit``, wrote; runs nothing from the folder."""
        model = load_model(folder, device)
        if model.task != cls._task:
            raise ValueError(
                f"{folder}: expected a model for {cls._task}, got one for {model.task}; use the other class"
            )
        told = model.facts.get("estimator", {})
        known = {key: told[key] for key in cls().get_params() if key in told}
        estimator = cls(**{**known, "device": device})
        estimator.model_ = model
        estimator._restore(model)
        return estimator

    def _restore(self, model: Model) -> None:
        """What a fitted estimator shows beside its model."""


class DGNRegressor(RegressorMixin, _OnSmiles):  # type: ignore[misc]
    """Numbers from SMILES by an ensemble of directional graph networks.

    ``fit(smiles, y)`` takes y [R] or [R, T], NaN where unknown; a share ``validation_fraction`` of the molecules stops
    the training and calibrates intervals. ``epochs`` is a limit; without, it follows from the number of molecules.
    ``search`` settings are tried before, and the best on those molecules is taken.

    >>> DGNRegressor(members=2).get_params()["members"]
    2
    """

    _task: Task = "regression"

    def fit(self, X: Sequence[str], y: ArrayLike) -> Self:  # noqa: N803, scikit-learn's name
        """Learn from SMILES and numbers."""
        smiles, values = _texts(X), np.asarray(y, dtype=np.float64)
        _check_rows(len(smiles), len(values))
        self._flat = values.ndim == 1
        values = values.reshape(len(smiles), -1)
        for column in values.T:
            if len(np.unique(column[~np.isnan(column)])) < 2:
                raise ValueError("y: expected at least two different values, got a constant; there is nothing to learn")
        targets = tuple(Target("y" if values.shape[1] == 1 else f"y{number}") for number in range(values.shape[1]))
        self._fit(smiles, torch.from_numpy(values), targets)
        return self

    def predict(self, X: Sequence[str]) -> Array:  # noqa: N803
        """Predictions [R], or [R, T] if y had columns."""
        return self._shape(self._predict(X).mean)

    def predict_interval(self, X: Sequence[str], level: float = 0.9) -> tuple[Array, Array]:  # noqa: N803
        """Lower and upper ends of conformal intervals; infinite with too few validation molecules for the level."""
        mean, spread = self._predict(X)
        half = self.model_.half_width(spread, level)
        return self._shape(mean - half), self._shape(mean + half)

    def predict_spread(self, X: Sequence[str]) -> Array:  # noqa: N803
        """The standard deviation over the ensemble."""
        return self._shape(self._predict(X).spread)

    def _shape(self, values: torch.Tensor) -> Array:
        found: Array = values.numpy()
        return found[:, 0] if self._flat else found

    def _restore(self, model: Model) -> None:
        self._flat = len(model.targets) == 1


class DGNClassifier(ClassifierMixin, _OnSmiles):  # type: ignore[misc]
    """Two classes from SMILES by an ensemble of directional graph networks; arguments as :class:`DGNRegressor`."""

    _task: Task = "binary"

    def fit(self, X: Sequence[str], y: ArrayLike) -> Self:  # noqa: N803
        """Learn from SMILES and labels of two kinds."""
        smiles, labels = _texts(X), np.asarray(y)
        _check_rows(len(smiles), len(labels))
        self.classes_ = np.unique(labels)
        if labels.ndim != 1 or len(self.classes_) != 2:
            raise ValueError(
                f"y: expected one label of two classes per molecule, got {len(self.classes_)} classes in shape "
                f"{list(labels.shape)}; for more, fit one classifier for each"
            )
        values = torch.from_numpy((labels == self.classes_[1]).astype(np.float64))[:, None]
        low, high = (str(each) for each in self.classes_)
        self._fit(smiles, values, (Target("y", (low, high)),))
        return self

    def predict_proba(self, X: Sequence[str]) -> Array:  # noqa: N803
        """Probabilities of both classes, in the order of ``classes_``: [R, 2]."""
        positive: Array = self._predict(X).mean[:, 0].numpy()
        return np.stack([1 - positive, positive], axis=1)

    def predict(self, X: Sequence[str]) -> Array:  # noqa: N803
        """The more probable class of each molecule; one that cannot be read has none and is refused."""
        positive = self.predict_proba(X)[:, 1]
        if np.isnan(positive).any():
            raise ValueError("X: expected SMILES that RDKit can read, got others; predict_proba gives NaN for them")
        found: Array = self.classes_[(positive > 0.5).astype(int)]
        return found

    def _restore(self, model: Model) -> None:
        names = model.targets[0].classes
        assert names is not None
        self.classes_ = _labels(names)


def _labels(names: tuple[str, str]) -> Array:
    """Labels as they were before they were spelled.

    >>> _labels(("0", "1")).dtype.kind, _labels(("False", "True")).dtype.kind, _labels(("no", "yes")).dtype.kind
    ('i', 'b', 'U')
    """
    if names == ("False", "True"):
        return np.array([False, True])
    for kind in (int, float):
        try:
            return np.array([kind(name) for name in names])
        except ValueError:
            continue
    return np.array(names)


def _texts(smiles: Any) -> list[str]:
    """SMILES as a list: of a list, an array (also with one column) or a pandas series."""
    if isinstance(smiles, str):
        raise TypeError("X: expected a list of SMILES, got one text; put it into a list")
    found = np.asarray(smiles, dtype=object)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1 or not all(isinstance(one, str) for one in found):
        raise TypeError(f"X: expected a list of SMILES, got an array of shape {list(found.shape)}; give text alone")
    return [str(one) for one in found]


def _check_rows(smiles: int, values: int) -> None:
    if smiles != values:
        raise ValueError(f"y: expected {smiles} values, one for each SMILES, got {values}; check both lists")
