"""`make bench`: this project's training and evaluation beside what people would use instead, on the same work.

Every figure compares two things measured in one run, one after the other, several times; what is reported is
the median of the ratios, with their least and greatest and their number. Nothing here is fetched from a network.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before transformers is imported: every model is a local folder
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
