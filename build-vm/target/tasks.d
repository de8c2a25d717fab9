build-vm/target/tasks.o: src/target/tasks.c src/target/tasks.h \
 src/record.h src/target/process.h
src/target/tasks.h:
src/record.h:
src/target/process.h:
