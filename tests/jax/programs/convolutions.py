"""Convolutions, their gradients, and pooling."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, normal, program


def conv(x, kernel, layout=("NHWC", "HWIO", "NHWC"), padding="SAME", strides=(1, 1), **options):
    return jax.lax.conv_general_dilated(x, kernel, strides, padding, dimension_numbers=layout, **options)


@program(normal(8, 56, 56, 64), normal(3, 3, 64, 64))
def channels_last(x, kernel):
    return conv(x, kernel)


@program(normal(4, 32, 56, 56), normal(32, 32, 3, 3))
def channels_first(x, kernel):
    return conv(x, kernel, ("NCHW", "OIHW", "NCHW"))


@program(normal(4, 56, 56, 32), normal(3, 3, 32, 32), normal(4, 56, 56, 32))
def kernel_gradient(x, kernel, weights):
    return jax.grad(lambda kernel: jnp.sum(conv(x, kernel) * weights))(kernel)


@program(normal(4, 56, 56, 64), normal(3, 3, 1, 64))
def depthwise(x, kernel):
    return conv(x, kernel, feature_group_count=64)


@program(normal(8, 112, 112, 16))
def max_pooling(x):
    return jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


@held_out(normal(16, 1000, 32), normal(9, 32, 32))
def one_dimension_dilated(x, kernel):
    return jax.lax.conv_general_dilated(
        x, kernel, (1,), "SAME", rhs_dilation=(4,), dimension_numbers=("NWC", "WIO", "NWC")
    )


@held_out(normal(4, 28, 28, 64), normal(4, 4, 64, 32))
def transposed(x, kernel):
    return jax.lax.conv_transpose(x, kernel, (2, 2), "SAME")


@held_out(integers(-128, 128, 4, 28, 28, 32, dtype=np.int8), integers(-128, 128, 3, 3, 32, 32, dtype=np.int8))
def quantized(x, kernel):
    return conv(x, kernel, preferred_element_type=jnp.int32)


@held_out(normal(4, 56, 56, 32))
def gradient_of_average_pooling(x):
    def loss(x):
        window, strides = (1, 2, 2, 1), (1, 2, 2, 1)
        return jnp.sum(jax.lax.reduce_window(x, 0.0, jax.lax.add, window, strides, "VALID") ** 2)

    return jax.grad(loss)(x)
