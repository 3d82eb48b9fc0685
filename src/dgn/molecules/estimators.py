"""Estimators like those of scikit-learn, on lists of SMILES."""

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dgn.molecules.columns import Target, Task
from dgn.molecules.conformal import too_few
from dgn.molecules.fit import FitOptions, fit_molecules
from dgn.molecules.model_io import Model, Prediction, load_model
from dgn.molecules.predict import predict_smiles
from dgn.molecules.rows import read_molecules
from dgn.molecules.split import PARTS, at_random, lack
from dgn.molecules.validation import Array, check_rows, known_labels, labels_of, numbers, texts, whole, written

__all__ = ["DGNClassifier", "DGNRegressor"]


class _OnSmiles(BaseEstimator):  # type: ignore[misc]
    """What both estimators share."""

    _task: Task

    def __init__(
        self,
        members: int = 5,
        epochs: int | None = None,
        validation_fraction: float = 0.1,
        random_state: int | np.random.RandomState | None = 0,
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
        held = float(self.validation_fraction)
        if not 0 < held < 1:
            raise ValueError(f"validation_fraction: expected between 0 and 1, got {held}; for example 0.1")
        options = self._options()
        molecules, problems = read_molecules(smiles, values, range(len(smiles)))
        for problem in problems:
            if problem.done != "kept":
                warnings.warn(str(problem).replace("line", "place"), stacklevel=3)
        part = at_random(molecules, self._task, options.seed, (1 - held, held, 0.0)).clamp(max=1)
        wrong = lack(part, molecules.values, self._task, PARTS[:2])
        if wrong:
            raise ValueError(
                f"validation_fraction: expected molecules to train and to validate, got {wrong}; change it"
            )
        with tempfile.TemporaryDirectory() as folder:
            self.model_ = fit_molecules(molecules, part, self._task, targets, "smiles", options, Path(folder)).model

    def _options(self) -> FitOptions:
        """The parameters as plain numbers: searches over them give NumPy's. Without a seed, one is drawn."""
        seed = self.random_state
        if seed is None or isinstance(seed, np.random.RandomState):
            seed = check_random_state(seed).randint(2**31 - 1)
        epochs = None if self.epochs is None else whole("epochs", self.epochs)
        members, search = whole("members", self.members), whole("search", self.search)
        return FitOptions(members, epochs, whole("random_state", seed), self.device, search)

    def _predict(self, smiles: Sequence[str]) -> Prediction:
        check_is_fitted(self, "model_")
        prediction, problems = predict_smiles(self.model_, texts(smiles))
        bad = [str(number) for number, problem in enumerate(problems) if problem]
        if bad:
            warnings.warn(
                f"{len(bad)} SMILES cannot be read, NaN stands for them (places {', '.join(bad[:8])})", stacklevel=3
            )
        return prediction

    def save(self, folder: str | Path) -> None:
        """Write weights and configuration into a new folder; ``dgn predict`` reads it too."""
        check_is_fitted(self, "model_")
        if Path(folder).exists() and (not Path(folder).is_dir() or any(Path(folder).iterdir())):
            raise ValueError(f"folder: expected a new one, got {folder}, which is taken; choose another, or remove it")
        told = {name: written(value) for name, value in self.get_params().items()} | self._told()
        replace(self.model_, facts={**self.model_.facts, "estimator": told}).save(Path(folder))

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> Self:
        """Read what :meth:`save`, or ``dgn fit``, wrote; runs nothing from the folder."""
        model = load_model(folder, device)
        if model.task != cls._task:
            remedy = (
                "use the other class" if model.task != "multi-label" else "use dgn.molecules.predict.predict_smiles"
            )
            raise ValueError(f"{folder}: expected a model for {cls._task}, got one for {model.task}; {remedy}")
        told = model.facts.get("estimator", {})
        known = {key: told[key] for key in cls().get_params() if key in told}
        estimator = cls(**{**known, "device": device})
        estimator.model_ = model
        estimator._restore(model, told)
        return estimator

    def _told(self) -> dict[str, Any]:
        """What a fitted estimator knows beside its parameters and its model."""
        raise NotImplementedError

    def _restore(self, model: Model, told: Mapping[str, Any]) -> None:
        """Know it again; ``dgn fit`` tells nothing of it."""
        raise NotImplementedError


class DGNRegressor(RegressorMixin, _OnSmiles):  # type: ignore[misc]
    """Numbers from SMILES by an ensemble of directional graph networks.

    ``fit(smiles, y)`` takes y [R] or [R, T], NaN where unknown; a share ``validation_fraction`` of the molecules stops
    the training and calibrates intervals. ``epochs`` is a limit; without, it follows from the number of molecules.
    ``search`` settings are tried before, and the best on those molecules is taken. Without a ``random_state`` every fit
    draws another seed.

    >>> DGNRegressor(members=2).get_params()["members"]
    2
    """

    _task: Task = "regression"

    def fit(self, X: Sequence[str], y: ArrayLike) -> Self:  # noqa: N803, scikit-learn's name
        """Learn from SMILES and numbers."""
        smiles, values = texts(X), numbers(y)
        check_rows(len(smiles), len(values))
        self._flat = values.ndim == 1
        values = values.reshape(len(smiles), -1)
        if np.isinf(values).any():
            raise ValueError("y: expected numbers, or NaN where there is none, got infinite ones; leave them out")
        for column in values.T:
            if (kinds := len(np.unique(column[~np.isnan(column)]))) < 2:
                got = "a constant" if kinds else "none but NaN"
                raise ValueError(f"y: expected at least two different values, got {got}; there is nothing to learn")
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
        if (why := too_few(self.model_.scores, level)) is not None:
            warnings.warn(why, stacklevel=2)
        return self._shape(mean - half), self._shape(mean + half)

    def predict_spread(self, X: Sequence[str]) -> Array:  # noqa: N803
        """The standard deviation over the ensemble."""
        return self._shape(self._predict(X).spread)

    def _shape(self, values: torch.Tensor) -> Array:
        found: Array = values.numpy()
        return found[:, 0] if self._flat else found

    def _told(self) -> dict[str, Any]:
        return {"flat": self._flat}

    def _restore(self, model: Model, told: Mapping[str, Any]) -> None:
        self._flat = len(model.targets) == 1 and bool(told.get("flat", True))


class DGNClassifier(ClassifierMixin, _OnSmiles):  # type: ignore[misc]
    """Two classes from SMILES by an ensemble of directional graph networks; arguments as :class:`DGNRegressor`."""

    _task: Task = "binary"

    def fit(self, X: Sequence[str], y: ArrayLike) -> Self:  # noqa: N803
        """Learn from SMILES and labels of two kinds, NaN or None where unknown."""
        smiles, (labels, known) = texts(X), known_labels(y)
        check_rows(len(smiles), len(known))
        self.classes_, self._turned = np.unique(labels), False
        if known.ndim != 1 or len(self.classes_) != 2:
            raise ValueError(
                f"y: expected one label of two classes per molecule, got {len(self.classes_)} classes in shape "
                f"{list(known.shape)}; for more, fit one classifier for each"
            )
        values = torch.full((len(smiles), 1), float("nan"), dtype=torch.float64)
        values[torch.from_numpy(known), 0] = torch.from_numpy((labels == self.classes_[1]).astype(np.float64))
        low, high = (str(each) for each in self.classes_)
        self._fit(smiles, values, (Target("y", (low, high)),))
        return self

    def predict_proba(self, X: Sequence[str]) -> Array:  # noqa: N803
        """Probabilities of both classes, in the order of ``classes_``: [R, 2]."""
        positive: Array = self._predict(X).mean[:, 0].numpy()
        both = [1 - positive, positive]
        return np.stack(both[::-1] if self._turned else both, axis=1)

    def predict(self, X: Sequence[str]) -> Array:  # noqa: N803
        """The more probable class of each molecule; one that cannot be read has none and is refused."""
        positive = self.predict_proba(X)[:, 1]
        if np.isnan(positive).any():
            raise ValueError("X: expected SMILES that RDKit can read, got others; predict_proba gives NaN for them")
        found: Array = self.classes_[(positive > 0.5).astype(int)]
        return found

    def _told(self) -> dict[str, Any]:
        return {"labels": [written(label) for label in self.classes_.tolist()], "turned": self._turned}

    def _restore(self, model: Model, told: Mapping[str, Any]) -> None:
        names = model.targets[0].classes
        assert names is not None
        kept, own = told.get("labels", ()), labels_of(names)
        known = len(kept) == 2
        self.classes_ = np.array(kept) if known else np.sort(own)  # as scikit-learn has them
        # The model says how likely the second name is, which may come first among sorted labels.
        self._turned = bool(told.get("turned", False)) if known else bool(own[0] > own[1])
