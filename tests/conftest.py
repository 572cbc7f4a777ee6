"""Hypothesis profiles: the same examples in every run, and many others in a campaign."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "suite", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

campaign = os.environ.get("AR_CAMPAIGN_EXAMPLES")
if campaign:
    settings.register_profile(
        "campaign",
        max_examples=int(campaign),
        derandomize=False,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("campaign")
