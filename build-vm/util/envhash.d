build-vm/util/envhash.o: src/util/envhash.c src/util/envhash.h \
 src/engine/engine.h src/probe.h src/record.h src/target/elf.h \
 src/target/process.h src/record.h src/util/fmt.h
src/util/envhash.h:
src/engine/engine.h:
src/probe.h:
src/record.h:
src/target/elf.h:
src/target/process.h:
src/record.h:
src/util/fmt.h:
