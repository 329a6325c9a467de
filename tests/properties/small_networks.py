"""Small networks, each with something that schedules must get right: forks, views, joins, tables, batches."""

from __future__ import annotations

from ethoscade.ir import Activation, DType
from ethoscade.testing import (
    ModelBuilder,
    inception_modules,
    inverted_residuals,
    keyword_spotting,
    mobilenet_v1,
    residual_network,
    shuffle_units,
    tiny_conv,
)


def chain(seed: int = 0) -> bytes:
    """Convolutions of all kinds in a row on an odd image."""
    b = ModelBuilder("chain", seed=seed)
    x = b.input((1, 19, 13, 3), name="input")
    x = b.conv2d(x, 8, (3, 5), activation=Activation.RELU)
    x = b.depthwise(x, 3, stride=2)
    x = b.conv2d(x, 12, 3, dilation=2)
    x = b.max_pool(x, (3, 2), stride=(1, 2), padding="SAME")
    b.conv2d(x, 5, 1)
    return b.build()


def residuals(seed: int = 0) -> bytes:
    """Two residual blocks, one inside the other."""
    b = ModelBuilder("residuals", seed=seed)
    x = b.input((1, 12, 15, 4), name="input")
    x = b.conv2d(x, 8, 3, stride=(2, 1))
    y = b.conv2d(x, 8, 3, activation=Activation.RELU)
    z = b.add(y, b.conv2d(b.depthwise(y, (5, 3)), 8, 1))
    b.conv2d(b.add(x, z), 6, (2, 3))
    return b.build()


def forked() -> bytes:
    """Two outputs, one of them in the middle."""
    b = ModelBuilder("forked", dtype=DType.UINT8)
    x = b.input((1, 11, 9, 4), name="input")
    x = b.conv2d(x, 8, 3)
    y = b.average_pool(x, 3, stride=1, padding="SAME")
    b.output(x, b.conv2d(y, 4, 3, stride=2))
    return b.build()


def heavy() -> bytes:
    """Constants that are worth slicing beside small images."""
    b = ModelBuilder("heavy")
    x = b.input((1, 6, 5, 48), name="input")
    x = b.conv2d(x, 96, 3, activation=Activation.RELU)
    x = b.depthwise(x, 3)
    x = b.conv2d(x, 120, 3, stride=2)
    b.fully_connected(b.mean(x), 40)
    return b.build()


def dense_on_images() -> bytes:
    """FULLY_CONNECTED over the pixels of images, between operators that see the same tensors as images."""
    b = ModelBuilder("dense_on_images")
    x = b.input((1, 17, 2, 2), name="input")
    x = b.conv2d(b.fully_connected(x, 14, keep_num_dims=True), 64, 1, stride=2)
    x = b.depthwise(x, 4, stride=3)
    y = b.fully_connected(x, 9, keep_num_dims=True)
    joined = b.concatenate([b.quantize(b.quantize(x), y.quantisation), y, b.quantize(x, y.quantisation)])
    b.output(y, b.fully_connected(joined, 5))
    return b.build()


def reshaped() -> bytes:
    """Tensors that readers see in other shapes: images, rows, batches, in the middle and at two readers at once."""
    b = ModelBuilder("reshaped")
    x = b.conv2d(b.input((1, 6, 10, 3), name="input"), 16, 3)
    x = b.depthwise(b.reshape(x, (1, 10, 6, 16)), 3)
    y = b.fully_connected(b.reshape(x, (5, 192)), 12)
    z = b.fully_connected(b.reshape(x, (60, 16)), 4)
    image = b.depthwise(b.reshape(b.quantize(z), (1, 12, 5, 4)), 3, stride=2)
    rows = b.reshape(b.conv2d(x, 8, 1), (3, 20, 8))
    left, right = b.split(b.add(b.quantize(rows), rows), 2)
    joined = b.quantize(b.concatenate([left, right, left]))
    b.output(y, image, b.fully_connected(b.quantize(y), 7), b.mean(b.reshape(joined, (1, 20, 3, 12)), (2,)), joined)
    return b.build()


def renamed() -> bytes:
    """Reshapes that no rule folds: of the input, of tensors with other readers, of outputs, before a CONCATENATION."""
    b = ModelBuilder("renamed")
    given = b.input((1, 60, 6), name="input")
    x = b.conv2d(b.reshape(given, (1, 10, 9, 4)), 16, 3)
    y = b.depthwise(b.reshape(x, (1, 18, 5, 16)), 3)
    z = b.max_pool(x, 3, stride=3)
    joined = b.concatenate([b.reshape(x, (1, 90, 16)), b.reshape(z, (1, 9, 16))], axis=1)
    rows = b.conv2d(b.expand_dims(joined, 1), 8, 1)
    b.output(b.reshape(given, (2, 5, 9, 4, 1)), y, b.reshape(y, (90, 16)), rows, b.squeeze(rows, (0, 1)))
    return b.build()


def resized() -> bytes:
    """Pixels repeated twice, four and eight times between convolutions, to odd sizes too, and beside each other."""
    b = ModelBuilder("resized")
    x = b.conv2d(b.input((1, 7, 9, 4), name="input"), 16, 3, stride=2)
    y = b.conv2d(b.resize_nearest(x, (8, 10), half_pixel_centers=True), 16, 3)
    z = b.depthwise(b.resize_nearest(x, (15, 19)), 3)
    four = b.conv2d(b.resize_nearest(y, (31, 40)), 8, (3, 2), stride=2)
    eight = b.max_pool(b.resize_nearest(b.max_pool(x, 2, stride=2), (16, 24)), 3, padding="SAME", stride=1)
    joined = b.resize_nearest(b.concatenate([b.quantize(y), b.quantize(y)]), (16, 20))
    b.output(four, b.conv2d(eight, 5, 1), b.conv2d(z, 3, 3), b.conv2d(joined, 3, 3, stride=3))
    return b.build()


def softmaxed() -> bytes:
    """SOFTMAX over images and rows, in the middle, and of two kinds of scales at once."""
    b = ModelBuilder("softmaxed")
    x = b.conv2d(b.input((1, 6, 5, 3), name="input"), 20, 3)
    y = b.softmax(b.fully_connected(b.reshape(x, (30, 20)), 12), beta=0.5)
    z = b.conv2d(b.softmax(b.depthwise(x, 3)), 4, 3)
    b.output(b.fully_connected(y, 7), z, b.softmax(b.reshape(b.mean(z), (1, 4))))
    return b.build()


def joined_on_rows() -> bytes:
    """Branches joined along rows, columns and channels between convolutions, read again in rows."""
    b = ModelBuilder("joined_on_rows")
    x = b.conv2d(b.input((1, 14, 9, 4), name="input"), 16, 3)
    y = b.conv2d(x, 16, 3, output=x.quantisation)
    tall = b.conv2d(b.concatenate([y, x, y], axis=1), 16, 3, stride=2, output=x.quantisation)
    wide = b.depthwise(b.concatenate([tall, b.max_pool(tall, 3, stride=1, padding="SAME")], axis=2), 3, stride=(2, 1))
    both = b.concatenate([b.split(wide, (3, 7), axis=2)[1], b.split(wide, (7, 3), axis=2)[0]])
    b.output(b.conv2d(both, 12, 3), tall)
    return b.build()


def sliced() -> bytes:
    """Rows, columns and channels taken out, with strides and without, and what is read of it further on."""
    b = ModelBuilder("sliced")
    x = b.conv2d(b.input((1, 17, 12, 4), name="input"), 24, 3)
    top = b.strided_slice(x, (0, 0, 0, 0), (1, 9, 12, 24), (1, 1, 1, 1))
    low = b.strided_slice(x, (0, 5, 1, 3), (1, 17, 11, 19), (1, 2, 3, 1))
    first, rest = b.split(b.depthwise(top, 3), (4, 5), axis=1)
    odd = b.strided_slice(x, (0, 1, 0, 0), (1, 17, 12, 24), (1, 5, 1, 2))
    b.output(b.conv2d(low, 8, 3), b.conv2d(first, 5, 1), b.max_pool(rest, 2), b.conv2d(odd, 4, 1))
    return b.build()


def batches() -> bytes:
    """Images above one another, each with its own padding, and together again."""
    b = ModelBuilder("batches")
    x = b.conv2d(b.input((3, 9, 7, 4), name="input"), 16, 3)
    y = b.average_pool(b.depthwise(x, 3, stride=2), 3, stride=1, padding="SAME")
    b.output(b.conv2d(b.max_pool(y, 2, stride=2), 8, 3), x)
    return b.build()


BUILT = {
    "batches": batches,
    "joined_on_rows": joined_on_rows,
    "sliced": sliced,
    "resized": resized,
    "softmaxed": softmaxed,
    "dense_on_images": dense_on_images,
    "reshaped": reshaped,
    "renamed": renamed,
    "heavy": heavy,
    "tiny_conv": tiny_conv,
    "residual_network": lambda: residual_network(blocks=2, channels=8, resolution=16),
    "keyword_spotting": lambda: keyword_spotting(channels=16),
    "inverted_residuals": lambda: inverted_residuals(blocks=3, resolution=24),
    "mobilenet_v1": lambda: mobilenet_v1(0.25, 32, classes=12),
    "chain": chain,
    "residuals": residuals,
    "forked": forked,
    "inception_modules": lambda: inception_modules(resolution=17),
    "inception_modules_in_pixels": lambda: inception_modules(channels=10, resolution=13),
    "shuffle_units": lambda: shuffle_units(resolution=15),
    "shuffle_units_in_pixels": lambda: shuffle_units(channels=24, resolution=13),
}
