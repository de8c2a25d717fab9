build-vm/target/elf.o: src/target/elf.c src/target/elf.h
src/target/elf.h:
