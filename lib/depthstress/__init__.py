"""Depth stress: does a language model execute the procedure that it was given?

`opcodes`, `interpreter`, `tasks`, `formats`, `scoring` and `statistics` are pure: no file, no model, no
global state. `runs` alone knows where things lie on disk. `models`, `training` and `generation` alone
import torch.
"""

__version__ = "0.1.0"
