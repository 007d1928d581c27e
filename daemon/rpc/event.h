/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "core/object/session.h"
#include "proto/packet.h"

/* Writes the packet for EVENT to BUF. Returns its length. */
size_t event_pack(const struct session_event *event, uint8_t buf[PACKET_MAX]);
