"""What kernels take on the adapter at hand: bench.json's cases, GPU timestamps, medians over interleaved rounds.

In: a Lab and queries. Out: one row per case and variant. Milliseconds. A time below the timer's resolution says so.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from kernel_lab import line
from kernel_lab.browsing.lab import Lab
from kernel_lab.errors import LabError
from kernel_lab.operators import dtypes, generators, operator
from kernel_lab.operators.dtypes import Array
from kernel_lab.operators.operator import Operator
from kernel_lab.operators.requests import request_of
from kernel_lab.planning import expressions, scopes, selection
from kernel_lab.planning.plans import Plan
from kernel_lab.queries import Query
from kernel_lab.serving import frames
from kernel_lab.serving.frames import Job

DEADLINE_MS = 120_000
RESOLUTION_NS = 100_000
"""Chromium rounds GPU timestamps to 100 microseconds unless told otherwise."""
