build-vm/target/process.o: src/target/process.c src/target/process.h \
 src/record.h
src/target/process.h:
src/record.h:
