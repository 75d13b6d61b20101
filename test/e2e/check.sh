#!/bin/bash
# The sources pass their own checks.
set -eu
exec "$(dirname "$0")/../../scripts/check"
