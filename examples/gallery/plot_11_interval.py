r"""
An interval
===========

A prediction alone does not say how far to trust it. :class:`dgn.DGNRegressor` calibrates intervals on molecules that
trained nothing: eight of ten new molecules should lie inside a range of 80 %. Ranges are wider where the ensemble
disagrees and where a molecule is unlike those of the training.
"""

import random

import matplotlib.pyplot as plt
import numpy as np
from rdkit import Chem
from rdkit.Chem.Crippen import MolLogP

import dgn

# %%
# Molecules from a kit of parts. The target is a logP with noise, as a measurement would have it.

generator, noise = random.Random(0), np.random.default_rng(0)
ENDS = ["C", "CC", "CCCC", "O", "N", "C(=O)O", "C(=O)N", "C#N", "OC", "F", "Cl", "S", "C(C)C", "N(C)C", "c9ccccc9"]
CORES = ["c1ccc({a})cc1{b}", "C1CCC({a})CC1{b}", "c1cc({a})ncc1{b}", "CC({a})CC{b}", "C({a})CCOC{b}", "C1CC({a})NC1{b}"]
smiles = sorted(
    {generator.choice(CORES).format(a=generator.choice(ENDS), b=generator.choice(ENDS)) for _ in range(500)}
)
generator.shuffle(smiles)
truth = np.array([MolLogP(Chem.MolFromSmiles(one)) for one in smiles]) + noise.normal(0, 0.3, len(smiles))

new, labelled = smiles[:60], smiles[60:]
model = dgn.DGNRegressor(ensemble_size=2, epochs=10, validation_fraction=0.25, device="cpu").fit(labelled, truth[60:])
prediction, (low, high) = model.predict(new), model.predict_interval(new, level=0.8)

# %%
order = np.argsort(prediction)
inside = (low <= truth[:60]) & (truth[:60] <= high)
figure, axes = plt.subplots(figsize=(8.4, 3.6))
axes.vlines(range(60), low[order], high[order], color="#b2abd2", linewidth=4)
axes.plot(prediction[order], ".", color="#5e3c99", label="prediction, with its 80 % interval")
for hit, color, name in [(True, "#2b2d33", "measured, inside"), (False, "#e08214", "measured, outside")]:
    chosen = np.flatnonzero(inside[order] == hit)
    axes.plot(chosen, truth[:60][order][chosen], "x", color=color, label=name)
axes.set(xlabel="new molecules, by prediction", ylabel="logP", title=f"{inside.mean():.0%} of 60 molecules lie inside")
axes.legend(loc="upper left", fontsize=9)
plt.show()
