"""y: the sums of four neighbours."""

import numpy as np


def reference(inputs, attrs):
    """y: the sums of four neighbours, modulo 2^32."""
    return {"y": inputs["x"].reshape(-1, 4).sum(axis=1, dtype=np.uint32)}


def inputs_of(index, inputs, attrs):
    """Element i of y comes from x[4 i] to x[4 i + 3]."""
    return {"x": [(4 * index[0] + i,) for i in range(4)]}
