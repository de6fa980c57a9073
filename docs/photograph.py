"""Makes the photograph that ships with ndpool: an evening at a lake, computed, not taken.

    python docs/photograph.py            writes src/ndpool/data/lake.jpg

Nobody's picture and nobody's rights: ridges, clouds and ripples are sums of smooth noise, seeded.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

HEIGHT, WIDTH = 240, 320
HORIZON = 150
SUN = (84.0, 214.0)
PHOTOGRAPH = Path(__file__).parents[1] / "src" / "ndpool" / "data" / "lake.jpg"


def smooth_noise(rng: np.random.Generator, shape: tuple[int, int], cells: tuple[int, int]) -> np.ndarray:
    """Random numbers on a coarse grid of `cells`, with cosine steps between them."""
    grid = rng.random((cells[0] + 1, cells[1] + 1))

    def places(length: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        along = np.linspace(0, count, length, endpoint=False)
        whole = along.astype(int)
        return whole, (1 - np.cos(np.pi * (along - whole))) / 2

    (i, v), (j, u) = places(shape[0], cells[0]), places(shape[1], cells[1])
    i, v = i[:, None], v[:, None]
    above = grid[i, j] * (1 - u) + grid[i, j + 1] * u
    below = grid[i + 1, j] * (1 - u) + grid[i + 1, j + 1] * u
    return above * (1 - v) + below * v


def fractal(
    rng: np.random.Generator, shape: tuple[int, int], cells: tuple[int, int], octaves: int, decay: float = 0.5
) -> np.ndarray:
    """Noise on ever finer grids, each weaker than the last; about 0 to 1."""
    layers = [decay**k * smooth_noise(rng, shape, (cells[0] * 2**k, cells[1] * 2**k)) for k in range(octaves)]
    return sum(layers) / sum(decay**k for k in range(octaves))


def mix(a: np.ndarray, b: np.ndarray, share: np.ndarray) -> np.ndarray:
    return a * (1 - share[..., None]) + b * share[..., None]


def sky(rng: np.random.Generator) -> np.ndarray:
    """Deep blue above, orange at the horizon, the sun's glow, and clouds lit from below."""
    rows, columns = np.mgrid[:HORIZON, :WIDTH].astype(float)
    up = (1 - rows / HORIZON) ** 1.1
    image = mix(np.array([0.99, 0.70, 0.42]), np.array([0.16, 0.27, 0.50]), np.clip(up * 1.15, 0, 1))
    distance = np.hypot(rows - SUN[0], columns - SUN[1])
    image = mix(image, np.array([1.0, 0.90, 0.66]), 0.85 * np.exp(-distance / 34))
    image = mix(image, np.array([1.0, 0.98, 0.90]), np.clip(11 - distance, 0, 1))
    clouds = np.clip((fractal(rng, rows.shape, (5, 2), 6, 0.58) - 0.50) * 3.6, 0, 1) * np.clip(1.25 - rows / 125, 0, 1)
    lit = mix(np.array([0.45, 0.42, 0.52]), np.array([1.0, 0.76, 0.58]), np.clip(rows / 120, 0, 1))
    return image * (1 - 0.8 * clouds[..., None]) + lit * 0.8 * clouds[..., None]


def add_ridge(image: np.ndarray, rng: np.random.Generator, base: float, height: float, near: float) -> None:
    """One chain of mountains in front of the sky; `near` is 0 in the haze and 1 in front."""
    line = base - height * fractal(rng, (1, WIDTH), (1, 3), 7, 0.52)[0]
    rows = np.arange(HORIZON, dtype=float)[:, None]
    inside = np.clip(rows - line + 0.5, 0, 1)
    texture = fractal(rng, (HORIZON, WIDTH), (10, 16), 5, 0.7) - 0.5
    haze = np.array([0.80, 0.58, 0.50]) * (1 - near) + np.array([0.09, 0.12, 0.14]) * near
    lightness = 1 + near * 1.5 * texture + 0.25 * (1 - near) * np.clip((rows - line) / 60, 0, 1)
    image[:] = image * (1 - inside[..., None]) + haze * lightness[..., None] * inside[..., None]


def lake(rng: np.random.Generator, above: np.ndarray) -> np.ndarray:
    """The scene upside down, shaken by ripples that grow towards the shore, and darker."""
    depth = HEIGHT - HORIZON
    rows, columns = np.mgrid[:depth, :WIDTH].astype(float)
    ripple = fractal(rng, (depth, WIDTH), (34, 5), 4, 0.65) - 0.5
    source = np.clip(HORIZON - 1 - rows * 1.35 + ripple * (4 + rows * 0.42), 0, HORIZON - 1).astype(int)
    sideways = np.clip(columns + ripple * rows * 0.12, 0, WIDTH - 1).astype(int)
    image = above[source, sideways] * (0.82 - 0.30 * rows / depth)[..., None] + np.array([0.00, 0.02, 0.05])
    path = np.exp(-(((columns - SUN[1]) / (7 + rows * 0.28)) ** 2)) * np.clip(ripple * 5 + 0.35, 0, 1)
    return mix(image, np.array([1.0, 0.88, 0.62]), 0.8 * path)


def photograph() -> np.ndarray:
    """The picture as (240, 320, 3) bytes: scene, then what a lens and a sensor add."""
    rng = np.random.default_rng(41)
    above = sky(rng)
    for base, height, near in [(148, 70, 0.12), (150, 52, 0.42), (156, 44, 0.9)]:
        add_ridge(above, rng, base, height, near)
    image = np.concatenate([above, lake(rng, above)])
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    vignette = 1 - 0.32 * (((rows / HEIGHT - 0.5) ** 2 + (columns / WIDTH - 0.5) ** 2) * 2)
    grain = rng.normal(0, 0.012, (HEIGHT, WIDTH, 1)) + rng.normal(0, 0.006, (HEIGHT, WIDTH, 3))
    image = np.clip(image, 0, 1) * vignette[..., None] + grain
    return np.clip(image * 255 + 0.5, 0, 255).astype(np.uint8)


if __name__ == "__main__":
    from PIL import Image

    Image.fromarray(photograph()).save(PHOTOGRAPH, quality=88)
    print(f"{PHOTOGRAPH.name}: {PHOTOGRAPH.stat().st_size} bytes")
