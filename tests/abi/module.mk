# The binary was built with the headers of version 2.0 of the ABI. Rebuild it only if the soname changes; a later
# version with the same soname gets a second binary.
ABI_PROGRAM := tests/abi/program-2.0-x86_64
.PHONY: abi-program
abi-program: $(O)/librdmabroker.so
	$(Q)$(CC) -std=gnu11 -O2 -Wall -Wextra -Werror -Iclient -o $(ABI_PROGRAM) tests/abi/program.c \
		-L$(O) -lrdmabroker -s
