"""scikit-learn estimators on lists of SMILES."""

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

from dgn.data.datasets.pairs import are_pairs
from dgn.data.datasets.smiles import CENTRES, PAIRS
from dgn.molecules.columns import MOST_CLASSES, Target, Task
from dgn.molecules.conformal import too_few
from dgn.molecules.fit import FitOptions, fit_molecules
from dgn.molecules.model_io import Model, Prediction, load_model
from dgn.molecules.predict import predict_smiles
from dgn.molecules.rows import read_molecules
from dgn.molecules.split import SPLITS, missing_classes, random_split
from dgn.molecules.validation import (
    Array,
    as_censoring,
    as_float_array,
    as_int,
    as_smiles_list,
    as_weights,
    check_rows,
    known_labels,
    parse_classes,
    to_json_value,
)

__all__ = ["DGNClassifier", "DGNRegressor"]


class _SmilesEstimator(BaseEstimator):  # type: ignore[misc]
    """The base of both estimators."""

    _tasks: tuple[Task, ...]
    class_weight: str | None = None

    def __init__(
        self,
        ensemble_size: int = 5,
        epochs: int | None = None,
        validation_fraction: float = 0.1,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "auto",
        search: int = 0,
        descriptors: str = "",
        descriptor_models: bool = True,
    ) -> None:
        self.ensemble_size = ensemble_size
        self.epochs = epochs
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.device = device
        self.search = search
        self.descriptors = descriptors
        self.descriptor_models = descriptor_models

    def _fit(
        self,
        smiles: Sequence[str],
        values: torch.Tensor,
        task: Task,
        targets: tuple[Target, ...],
        sample_weight: ArrayLike | None,
        censoring: torch.Tensor | None = None,
    ) -> None:
        fraction = float(self.validation_fraction)
        if not 0 < fraction < 1:
            raise ValueError(f"validation_fraction: expected between 0 and 1, got {fraction}; for example 0.1")
        options, weights = self._options(), as_weights(sample_weight, len(smiles))
        of_rows = None if weights is None else torch.from_numpy(weights)
        pairs = are_pairs(smiles)
        molecules, problems = read_molecules(
            smiles, values, range(len(smiles)), weights=of_rows, censoring=censoring,
            featurization=PAIRS if pairs else CENTRES,
        )  # fmt: skip
        for problem in problems:
            if problem.action != "kept":
                warnings.warn(str(problem).replace("lines", "indices").replace("line", "index"), stacklevel=3)
        split = random_split(molecules, task, options.seed, (1 - fraction, fraction, 0.0)).clamp(max=1)
        missing = missing_classes(split, molecules.values, task, SPLITS[:2])
        if missing:
            raise ValueError(
                f"validation_fraction: expected molecules to train and to validate, got {missing}; change it"
            )
        with tempfile.TemporaryDirectory() as folder:
            model = fit_molecules(molecules, split, task, targets, "smiles", options, Path(folder)).model
        self.model_ = replace(model, partner="partner" if pairs else None)

    def _options(self) -> FitOptions:
        """The parameters as Python ints, as grid searches pass NumPy's; without a seed, one is drawn."""
        seed = self.random_state
        if seed is None or isinstance(seed, np.random.RandomState):
            seed = check_random_state(seed).randint(2**31 - 1)
        epochs = None if self.epochs is None else as_int("epochs", self.epochs)
        size, search = as_int("ensemble_size", self.ensemble_size), as_int("search", self.search)
        seed = as_int("random_state", seed)
        return FitOptions(
            size,
            epochs,
            seed,
            self.device,
            search,
            descriptors=self.descriptors,
            class_weights=self.class_weight,
            descriptor_models=bool(self.descriptor_models),
        )

    def _predict(self, smiles: Sequence[str]) -> Prediction:
        check_is_fitted(self, "model_")
        texts = as_smiles_list(smiles)
        if texts and are_pairs(texts) != (self.model_.partner is not None):
            expected = "one column" if self.model_.partner is None else "two columns, as in the fit"
            raise ValueError(f"X: expected SMILES in {expected}, got others; pass an array of that shape")
        prediction, problems = predict_smiles(self.model_, texts)
        bad = [str(index) for index, problem in enumerate(problems) if problem]
        if bad:
            warnings.warn(
                f"{len(bad)} SMILES cannot be read, their predictions are NaN (indices {', '.join(bad[:8])})",
                stacklevel=3,
            )
        return prediction

    def save(self, folder: str | Path) -> None:
        """Write weights and configuration to a new folder, which ``dgn predict`` reads too."""
        check_is_fitted(self, "model_")
        if Path(folder).exists() and (not Path(folder).is_dir() or any(Path(folder).iterdir())):
            raise ValueError(f"folder: expected a new one, got {folder}, which exists; choose another, or remove it")
        state = {name: to_json_value(value) for name, value in self.get_params().items()} | self._state()
        replace(self.model_, facts={**self.model_.facts, "estimator": state}).save(Path(folder))

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> Self:
        """The estimator that :meth:`save` or ``dgn fit`` wrote; loading executes no code from the folder."""
        model = load_model(folder, device)
        if model.task not in cls._tasks:
            remedy = (
                "use the other class" if model.task != "multi-label" else "use dgn.molecules.predict.predict_smiles"
            )
            expected = " or ".join(cls._tasks)
            raise ValueError(f"{folder}: expected a model for {expected}, got one for {model.task}; {remedy}")
        state = model.facts.get("estimator", {})
        params = {key: state[key] for key in cls().get_params() if key in state}
        estimator = cls(**{**params, "device": device})
        estimator.model_ = model
        estimator._restore(model, state)
        return estimator

    def _state(self) -> dict[str, Any]:
        """The state of a fitted estimator beside its parameters and its model."""
        raise NotImplementedError

    def _restore(self, model: Model, state: Mapping[str, Any]) -> None:
        """Restore that state, which is empty in a folder of ``dgn fit``."""
        raise NotImplementedError


class DGNRegressor(RegressorMixin, _SmilesEstimator):  # type: ignore[misc]
    """Regression on SMILES by an ensemble of directional graph networks, a random forest and a kernel ridge
    regression.

    ``fit(smiles, y, sample_weight=None, censoring=None)`` takes y [R] or [R, T], NaN where missing, and weights [R] of
    the molecules in the training loss. ``censoring``, of the shape of y, is 1 where the truth is above y, -1 where it
    is below, else 0. A fraction ``validation_fraction`` of the molecules is used for early stopping and to calibrate
    intervals. ``epochs`` is a maximum, by default chosen by the number of molecules. ``search`` is the number of trials
    of a hyperparameter search on the validation molecules. ``descriptors`` of whole molecules that the networks read
    too are "rdkit", "morgan" or "rdkit+morgan". With ``descriptor_models``, a random forest and a kernel ridge
    regression on descriptors are members of the ensemble too. With ``random_state=None`` every fit draws another seed.
    SMILES in two columns [R, 2] are pairs of molecules, such as solute and solvent.

    >>> DGNRegressor(ensemble_size=2).get_params()["ensemble_size"]
    2
    """

    _tasks: tuple[Task, ...] = ("regression",)

    def fit(
        self,
        X: Sequence[str],  # noqa: N803, scikit-learn's name
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        censoring: ArrayLike | None = None,
    ) -> Self:
        """Fit to SMILES and numbers."""
        smiles, values = as_smiles_list(X), as_float_array(y)
        check_rows(len(smiles), len(values))
        self._flat = values.ndim == 1
        values = values.reshape(len(smiles), -1)
        if np.isinf(values).any():
            raise ValueError("y: expected finite numbers, or NaN where missing, got infinity; leave them out")
        for column in values.T:
            if (distinct := len(np.unique(column[~np.isnan(column)]))) < 2:
                got = "a constant" if distinct else "only NaN"
                raise ValueError(f"y: expected at least two distinct values, got {got}; leave the column out")
        targets = tuple(Target("y" if values.shape[1] == 1 else f"y{index}") for index in range(values.shape[1]))
        signs = None if censoring is None else as_censoring(censoring, values.shape)
        self._fit(smiles, torch.from_numpy(values), "regression", targets, sample_weight, signs)
        return self

    def predict(self, X: Sequence[str]) -> Array:  # noqa: N803
        """Predictions [R], or [R, T] if y had two dimensions."""
        return self._shape(self._predict(X).mean)

    def predict_interval(self, X: Sequence[str], level: float = 0.9) -> tuple[Array, Array]:  # noqa: N803
        """Lower and upper bounds of conformal intervals; infinite with too few validation molecules for the level."""
        lower, upper = self.model_.interval(self._predict(X), level)
        if (message := too_few(self.model_.scores, level)) is not None:
            warnings.warn(message, stacklevel=2)
        return self._shape(lower), self._shape(upper)

    def predict_spread(self, X: Sequence[str]) -> Array:  # noqa: N803
        """The standard deviation over the ensemble; NaN for a single member."""
        return self._shape(self._predict(X).spread)

    def _shape(self, values: torch.Tensor) -> Array:
        array: Array = values.numpy()
        return array[:, 0] if self._flat else array

    def _state(self) -> dict[str, Any]:
        return {"flat": self._flat}

    def _restore(self, model: Model, state: Mapping[str, Any]) -> None:
        self._flat = len(model.targets) == 1 and bool(state.get("flat", True))


class DGNClassifier(ClassifierMixin, _SmilesEstimator):  # type: ignore[misc]
    """Classification of SMILES into two or more classes by an ensemble; arguments as :class:`DGNRegressor`.

    With ``class_weight="balanced"``, all classes have the same total weight in the training loss.
    """

    _tasks: tuple[Task, ...] = ("binary", "multiclass")

    def __init__(
        self,
        ensemble_size: int = 5,
        epochs: int | None = None,
        validation_fraction: float = 0.1,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "auto",
        search: int = 0,
        descriptors: str = "",
        class_weight: str | None = None,
        descriptor_models: bool = True,
    ) -> None:
        super().__init__(
            ensemble_size, epochs, validation_fraction, random_state, device, search, descriptors, descriptor_models
        )
        self.class_weight = class_weight

    def fit(self, X: Sequence[str], y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:  # noqa: N803
        """Fit to SMILES and labels of two or more classes, NaN or None where missing."""
        smiles, (labels, labelled) = as_smiles_list(X), known_labels(y)
        check_rows(len(smiles), len(labelled))
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        count = len(self.classes_)
        if labelled.ndim != 1 or not 2 <= count <= MOST_CLASSES:
            raise ValueError(
                f"y: expected one label of 2 to {MOST_CLASSES} classes per molecule, got {count} classes in shape "
                f"{list(labelled.shape)}; fit several columns one by one, and numbers with dgn.DGNRegressor"
            )
        self._order = list(range(count))
        values = torch.full((len(smiles), 1), float("nan"), dtype=torch.float64)
        values[torch.from_numpy(labelled), 0] = torch.from_numpy(numbers.astype(np.float64))
        target = Target("y", tuple(str(label) for label in self.classes_))
        self._fit(smiles, values, "binary" if count == 2 else "multiclass", (target,), sample_weight)
        return self

    def predict_proba(self, X: Sequence[str]) -> Array:  # noqa: N803
        """Probabilities of all classes, in the order of ``classes_``: [R, C]."""
        probability: Array = self._predict(X).mean.numpy()
        if probability.shape[1] == 1:
            probability = np.concatenate([1 - probability, probability], axis=1)
        ordered: Array = probability[:, self._order]
        return ordered

    def predict(self, X: Sequence[str]) -> Array:  # noqa: N803
        """The most probable class of each molecule; unreadable SMILES are refused."""
        probability = self.predict_proba(X)
        if np.isnan(probability).any():
            raise ValueError("X: expected SMILES that RDKit can read, got others; predict_proba gives NaN for them")
        labels: Array = self.classes_[probability.argmax(axis=1)]
        return labels

    def _state(self) -> dict[str, Any]:
        return {"labels": [to_json_value(label) for label in self.classes_.tolist()], "order": self._order}

    def _restore(self, model: Model, state: Mapping[str, Any]) -> None:
        names = model.targets[0].classes
        assert names is not None
        saved, parsed = state.get("labels", ()), parse_classes(names)
        is_saved = len(saved) == len(names)
        self.classes_ = np.array(saved) if is_saved else np.sort(parsed)  # sorted, as in scikit-learn
        # The outputs of the model are in the order of its names.
        ascending = [1, 0] if state.get("turned", False) else list(range(len(names)))
        self._order = state.get("order", ascending) if is_saved else np.argsort(parsed).tolist()
