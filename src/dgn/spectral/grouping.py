"""Groups of directions whose eigenvalues are near each other: soft membership by relative gap."""

from typing import NamedTuple

import torch
from torch import Tensor

WIDTH = 0.1  # relative gap at which two eigenvalues no longer share a group


class Group(NamedTuple):
    """Membership of each direction in a group, and the fraction of the group within the first K directions.

    Shapes:
        ``member`` [..., K] and ``strength`` [...], both from 0 to 1.
    """

    member: Tensor
    strength: Tensor


def group_around(gap: Tensor, direction: int, width: float = WIDTH) -> Group:
    r"""The directions that form a group with direction g, of the first K.

    .. math::
        m_l = \mu(\lambda_g, \lambda_l) \, \kappa_l, \qquad
        \mu(\lambda, \lambda') = \max\Big(0, 1 - \frac{1}{\tau} \Big(1 - \frac{\min(\lambda, \lambda')}
        {\max(\lambda, \lambda')}\Big)\Big), \qquad
        \kappa_l = \min\Big(1, \frac{1}{\tau} \Big(1 - \frac{\lambda_l}{\lambda_{K+1}}\Big)\Big)

    ``gap`` holds the relative gaps :math:`1 - \lambda_l / \lambda_{l+1}` of :class:`dgn.Directions`, which
    suffice; :math:`\tau` is ``width``. ``member`` is :math:`m` and ``strength`` :math:`\kappa_g`.

    Laws:
        - equal eigenvalues have equal membership;
        - both are continuous in the eigenvalues, whatever their order;
        - directions beyond the last have none: :math:`m_l` tends to 0 as :math:`\lambda_l` nears
          :math:`\lambda_{K+1}`. So :math:`m_l` is one continuous function of :math:`\lambda_l` over the whole
          spectrum, and :math:`\sum_l m_l^2 \phi_l \phi_l^\top` a continuous function of the Laplacian;
        - a direction without neighbours within ``width`` is a group of its own, with membership and strength 1.

    Edge cases: a direction that does not exist (gap NaN) belongs to no group, and a group around it has strength 0.
    A group that ends with the last vector of its component is complete.

    Shapes:
        ``gap`` [..., K].

    >>> group_around(torch.tensor([0.0, 0.05, 0.5]), direction=1).member.round(decimals=3).tolist()
    [1.0, 1.0, 0.5]
    >>> group_around(torch.tensor([0.0, 0.0]), direction=1)  # the third has the same eigenvalue
    Group(member=tensor([0., 0.]), strength=tensor(0.))
    """
    count = gap.size(-1)
    if not 1 <= direction <= count:
        raise ValueError(f"direction: expected 1 to {count}, a column of gap, got {direction}; compute more directions")
    if not 0 < width <= 1:
        raise ValueError(f"width: expected a relative gap above 0 and at most 1, got {width}; try {WIDTH}")
    exists = ~gap.isnan()
    step = 1 - torch.where(exists, gap, 1.0)  # ratio of consecutive eigenvalues
    below = step[..., : direction - 1].flip(-1).cumprod(-1).flip(-1)
    above = step[..., direction - 1 : count - 1].cumprod(-1)
    near = torch.cat([below, torch.ones_like(step[..., :1]), above], dim=-1)
    complete = ((1 - step.flip(-1).cumprod(-1).flip(-1)) / width).clamp(max=1)
    member = torch.where(exists, (1 - (1 - near) / width).clamp(min=0) * complete, 0.0)
    return Group(member, member[..., direction - 1])
