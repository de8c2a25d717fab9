build-vm/engine/engine.o: src/engine/engine.c src/engine/engine.h \
 src/probe.h src/record.h src/engine/spec.h src/util/log.h
src/engine/engine.h:
src/probe.h:
src/record.h:
src/engine/spec.h:
src/util/log.h:
