build-vm/util/names.o: src/util/names.c src/util/names.h src/record.h \
 src/util/syscalls_x86_64.h
src/util/names.h:
src/record.h:
src/util/syscalls_x86_64.h:
