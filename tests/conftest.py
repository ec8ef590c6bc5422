"""One thread: on small products two are slower than one, and many times slower on a busy machine."""

import torch

torch.set_num_threads(1)
