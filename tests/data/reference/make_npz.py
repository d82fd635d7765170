"""Makes the archives beside it with NumPy, in the layout of MedMNIST: `python3 make_npz.py`. The tests only read them."""
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent


def images(*shape):
    return (np.arange(np.prod(shape)) % 251).astype(np.uint8).reshape(shape)


def labels(*values):
    return np.array(values, np.uint8)[:, None]


np.savez_compressed(FOLDER / "medmnist.npz", train_images=images(6, 4, 5, 3), train_labels=labels(0, 1, 2, 0, 0, 1),
                    val_images=images(2, 4, 5, 3) + 1, val_labels=labels(2, 0),
                    test_images=images(3, 4, 5, 3) + 2, test_labels=labels(1, 1, 0))
np.savez(FOLDER / "grey.npz", train_images=images(3, 2, 2), train_labels=np.array([0, 1, 1]),
         test_images=images(1, 2, 2), test_labels=np.array([1]))
