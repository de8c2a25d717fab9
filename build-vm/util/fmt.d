build-vm/util/fmt.o: src/util/fmt.c src/util/fmt.h
src/util/fmt.h:
