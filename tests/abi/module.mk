# check_abi runs the binary in this folder, which was built with the headers of version 2.0 of the ABI. The binary is
# built anew only when the soname changes. A later version with the same soname gets a binary of its own beside it.
ABI_PROGRAM := tests/abi/program-2.0-x86_64
.PHONY: abi-program
abi-program: $(O)/librdmabroker.so
	$(Q)$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror -Iclient -o $(ABI_PROGRAM) tests/abi/program.c \
		-L$(O) -lrdmabroker -s
