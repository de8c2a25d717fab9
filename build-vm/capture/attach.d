build-vm/capture/attach.o: src/capture/attach.c src/capture/attach.h \
 src/engine/engine.h src/probe.h src/record.h src/target/elf.h \
 src/target/process.h src/record.h src/target/site.h src/util/log.h
src/capture/attach.h:
src/engine/engine.h:
src/probe.h:
src/record.h:
src/target/elf.h:
src/target/process.h:
src/record.h:
src/target/site.h:
src/util/log.h:
