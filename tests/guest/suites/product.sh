#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Not a suite: what tests/guest/run does in a guest before it freezes it for the suites that call product_up.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
set -e

product_up
