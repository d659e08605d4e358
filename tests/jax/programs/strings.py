"""Text as arrays of bytes, and hashes."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, program

TEXT = integers(97, 123, 100_000, dtype=np.uint8)


@program(TEXT, integers(97, 123, 4, dtype=np.uint8))
def occurrences(text, word):
    return jnp.sum(jnp.all(jnp.stack([text[i : i - 4] == word[i] for i in range(4)]), axis=0))


@program(TEXT)
def caesar_cipher(text):
    return (text - 97 + 13) % 26 + 97


@program(TEXT)
def pair_counts(text):
    pair = (text[:-1] - 97).astype(jnp.int32) * 26 + (text[1:] - 97)
    return jnp.bincount(pair, length=676)


@program(integers(0, 256, 2000, 64, dtype=np.uint8))
def rolling_hashes(lines):
    def step(value, byte):
        return value * np.uint32(16777619) ^ byte.astype(jnp.uint32), None

    return jax.lax.scan(step, jnp.full(2000, 2166136261, jnp.uint32), lines.T)[0]


@held_out(integers(0, 256, 30_000, dtype=np.uint8))
def base64(data):
    a, b, c = (data[i::3].astype(jnp.uint32) for i in range(3))
    word = (a << 16) | (b << 8) | c
    digits = jnp.stack([(word >> shift) & 63 for shift in (18, 12, 6, 0)], axis=1).reshape(-1)
    table = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
    return jnp.asarray(table)[digits]


@held_out(integers(0, 256, 4096, dtype=np.uint8))
def checksum_by_table(data):
    table = jnp.arange(256, dtype=jnp.uint32)
    for _ in range(8):
        table = jnp.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)

    def step(crc, byte):
        return table[(crc ^ byte) & 255] ^ (crc >> 8), None

    return jax.lax.scan(step, np.uint32(0xFFFFFFFF), data)[0]


@held_out(np.where(TEXT > 118, 32, TEXT).astype(np.uint8))
def lengths_of_words(text):
    is_space = text == 32
    start = jax.lax.cummax(jnp.where(is_space, jnp.arange(100_000), -1))
    return jnp.bincount(jnp.where(is_space, 0, jnp.arange(100_000) - start), length=40)
