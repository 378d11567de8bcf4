"""The numbers of the contract, in one place."""

from __future__ import annotations

from typing import Final

MAX_INT: Final = 2**53 - 1
"""Largest integer that every store keeps exactly."""

MAX_COUNT: Final = 2**32 - 1
"""Largest number of retries, replays and the like that a policy may name."""

DAY_MS: Final = 86_400_000
NEVER: Final = 9_999_999_999_999
"""Score of something that has no time of its own."""

MAX_PAYLOAD_BYTES: Final = 1_048_576
MAX_RESULT_BYTES: Final = 1_048_576
MAX_STEP_BYTES: Final = 1_048_576
MAX_FRAME_BYTES: Final = 65_536
MAX_SUMMARY_BYTES: Final = 1_048_576
MAX_SIGNAL_BYTES: Final = 65_536
MAX_DETAIL_BYTES: Final = 16_384
MAX_TEXT_BYTES: Final = 4_096
"""Free text: reasons, messages, pointers."""
MAX_NAME_BYTES: Final = 256
"""Names: namespaces, kinds, workers, signals, steps, keys."""
MAX_POLICY_BYTES: Final = 65_536

MAX_PRIORITY: Final = 9_000
PRIORITY_STEP: Final = 1_000_000_000_000

MAX_LANE_BYTES: Final = 64
MAX_LANES_PER_CLAIM: Final = 64
MAX_TASKS_PER_CLAIM: Final = 256
MAX_TOKENS: Final = 1_000
"""Tokens of people and programs: few enough to be read at once."""
MAX_BATCH: Final = 1_000

MAX_KINDS: Final = 1_000
"""Kinds of one namespace."""
MAX_KIND_NAMESPACES: Final = 10_000
"""Namespaces that have kinds of their own."""
MAX_SCHEMA_BYTES: Final = 65_536
MAX_DESCRIPTION_BYTES: Final = 4_096
MAX_KINDS_PER_LOOKUP: Final = 32
MAX_KINDS_PER_PAGE: Final = 1_000
MAX_KIND_PAGE_BYTES: Final = 4 * 1_048_576
MAX_FAIRNESS_WEIGHT: Final = 1_000

MAX_CAPABILITIES: Final = 256
MAX_CAPABILITY_BYTES: Final = 4_096

MAX_TAGS: Final = 64
MAX_TAG_KEY_BYTES: Final = 128
MAX_TAG_VALUE_BYTES: Final = 1_024

MAX_STEPS: Final = 10_000
MAX_STEP_BYTES_IN_TASK: Final = 262_144
MAX_STEP_BYTES_IN_PAGE: Final = 4_194_304
"""How many bytes of results one page of a list of steps may hold."""

MAX_PENDING_WAITPOINTS: Final = 256
MAX_QUESTION_BYTES: Final = 4_096
"""Of the message that a waitpoint shows to whoever is asked."""
MAX_QUESTION_DETAILS_BYTES: Final = 16_384
MAX_SIGNALS: Final = 10_000
SIGNAL_LIST_LENGTH: Final = 1_000

DEFAULT_DEDUP_MS: Final = DAY_MS
FEED_AFTER_PURGE_MS: Final = DAY_MS
"""How long the feed still tells of an execution after everything else of it was deleted."""
DEFAULT_RETENTION_MS: Final = DAY_MS
DEFAULT_MAX_RECLAIMS: Final = 100
DEFAULT_MAX_REPLAYS: Final = 10
DEFAULT_MAX_RETRIES: Final = 3
DEFAULT_LEASE_TTL_MS: Final = 30_000
MIN_LEASE_TTL_MS: Final = 1_000
MAX_LEASE_TTL_MS: Final = 3_600_000
MAX_GRANT_TTL_MS: Final = 60_000
LIVENESS_MS: Final = 30_000
"""How long a worker counts as alive after a claim when it did not register."""
MAX_LIVENESS_MS: Final = 3_600_000
MAX_KINDS_PER_CLAIM: Final = 1_000
MAX_KIND_BYTES_PER_CLAIM: Final = 65_536
"""Of all names of kinds that one claim or one registration carries."""

SUSPEND_MEMO_GRACE_MS: Final = 60_000
SUSPEND_MEMO_MAX_MS: Final = 604_800_000
TIMEOUT_PAST_TOLERANCE_MS: Final = 600_000
MAX_CONDITION_DEPTH: Final = 4

FRAME_READ_MAX: Final = 10_000
STREAM_MAXLEN: Final = 10_000
SUMMARY_MAXLEN: Final = 64
MAX_STREAM_LEASES: Final = 32
"""Of so many leases a stream knows where their frames begin; the oldest ones are merged."""
MAX_TAIL_MS: Final = 30_000
MAX_PATCH_DEPTH: Final = 16

FLOW_PARTITIONS: Final = 256
BUDGET_PARTITIONS: Final = 32
QUOTA_PARTITIONS: Final = 32
