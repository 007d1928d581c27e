/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The names of proofs begin in one of these ways. A program answers only names for what it does: whoever it talks to could
 * pass the name on from elsewhere, in order to get a proof of this program's identity.
 */
#define PROOF_OPENS "rdmabroker-proof-" /* for who connects to the broker's socket */
#define PROOF_ADOPTS "rdmabroker-adopt-" /* for who adopts a released session */

/*
 * The type of the socket that is the proof NAME. That of PROOF_ADOPTS is SOCK_STREAM, because earlier versions of the
 * library answered any name, with a SOCK_SEQPACKET socket.
 */
int proof_type(const char *name);
/*
 * Makes the socket NAME, which proves to the daemon which process this is, see HelloResult.proof in rdmabroker.proto.
 * KIND: how NAME must begin. Returns a descriptor, or a negative errno: without the proof the daemon does not know what
 * this process belongs to, and no QP counts as its own. -EPROTO: NAME is of another kind.
 */
int proof_new(const char *name, const char *kind);
