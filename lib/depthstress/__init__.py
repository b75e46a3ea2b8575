"""Depth stress: does a language model execute the procedure that it was given?

`opcodes`, `interpreter`, `tasks`, `formats`, `scoring` and `statistics` are pure: no file, no model, no
global state. `runs` alone knows where things lie on disk. torch is imported by `models`, `training`
and `generation` alone.
"""

__version__ = "0.1.0"
