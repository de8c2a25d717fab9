build-vm/target/command.o: src/target/command.c src/target/command.h
src/target/command.h:
