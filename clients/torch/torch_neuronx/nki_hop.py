"""torch_neuronx.nki_hop: a higher-order operator of torch that calls kernels with a launch grid
inside models.
"""

from nkisim_torch.legacy import wrap_nki

__all__ = ["wrap_nki"]
