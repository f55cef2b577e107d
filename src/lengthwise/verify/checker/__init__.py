"""An independent checker of certificates: numpy and Python's own library, and nothing that proofs are found by.

python -m lengthwise.verify.checker certificate.json model/
"""

from .check import Report, check, in_words, is_about, seal
from .fields import Rejected, read_json
from .weights import DEFAULTS, digest

__all__ = ["DEFAULTS", "Rejected", "Report", "check", "digest", "in_words", "is_about", "read_json", "seal"]
