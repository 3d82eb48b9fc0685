r"""
An explanation
==============

A network learns the polar surface area of small molecules from examples. It is not told that oxygen and nitrogen make
it. Integrated gradients (:func:`dgn.plot.attribution.attribute`) share a prediction among the atoms, and the shares
add up to it: here that of paracetamol, which was not among the examples.
"""

import random

import matplotlib.pyplot as plt
import torch
from rdkit import Chem
from rdkit.Chem.rdMolDescriptors import CalcTPSA
from torch_geometric.data import Batch, Data

import dgn
from dgn.plot.attribution import attribute
from dgn.plot.field_view import draw_field
from dgn.plot.sources import molecule_scene

ENDS = ["C", "CC", "O", "N", "C(=O)O", "C(=O)N", "C#N", "OC", "F", "C(C)C", "N(C)C", "NC(=O)C", "C(=O)C"]
CORES = ["c1ccc({a})cc1{b}", "C1CCC({a})CC1{b}", "c1cc({a})ncc1{b}", "CC({a})CC{b}", "C({a})CCOC{b}"]


def read(smiles: str) -> Data:
    """Elements as features, bonds as edges, the surface area in Å² as the target."""
    molecule = Chem.MolFromSmiles(smiles)
    element = torch.tensor(["CNOF".index(atom.GetSymbol()) for atom in molecule.GetAtoms()])
    bonds = torch.tensor([(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]).T
    x, edge_index = torch.nn.functional.one_hot(element, 4).float(), torch.cat([bonds, bonds.flip(0)], dim=1)
    return Data(x=x, edge_index=edge_index, y=torch.tensor([[CalcTPSA(molecule)]]))


kit = random.Random(0)
smiles = [kit.choice(CORES).format(a=kit.choice(ENDS), b=kit.choice(ENDS)) for _ in range(300)]
add_directions = dgn.transforms.AddDirections(k=1)
train = Batch.from_data_list(add_directions.transform_all([read(one) for one in smiles]))
torch.manual_seed(0)
settings = dgn.NetworkSettings(hidden=32, num_layers=3, aggregators=["mean", "dx1"], readout="sum")
network = dgn.nn.DGN(torch.nn.Linear(4, 32), settings)
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for _ in range(120):
    loss = torch.nn.functional.smooth_l1_loss(network(train), train.y / 10)
    optimizer.zero_grad(), loss.backward(), optimizer.step()

# %%
PARACETAMOL = "CC(=O)Nc1ccc(O)cc1"
data, scene = add_directions(read(PARACETAMOL)), molecule_scene(PARACETAMOL)
shares = attribute(network, data)
figure, axes = plt.subplots(figsize=(8.4, 3.6))
area = 10 * shares.nodes
draw_field(axes, scene.edge_index, scene.position, values=area, size=560)
for place, label, share in zip(scene.position, scene.labels, area.tolist(), strict=True):
    color = "white" if abs(share) > 11 else "#2b2d33"
    axes.text(*place, f"{label[0]}\n{share:+.0f}", ha="center", va="center", color=color, fontsize=8, zorder=4)
axes.set_title(
    f"paracetamol: {10 * shares.prediction:.0f} Å² predicted, {float(data.y):.0f} Å² true; shares of atoms in Å²"
)
axes.margins(0.12)
plt.show()
