/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Many texts of rdmabroker_last_failure() begin with the name of the call that failed, such as "get_status: ". Those
 * who read the messages of a program did not make this call. Returns the part of TEXT after the name.
 */
const char *reason_without_call(const char *text);
