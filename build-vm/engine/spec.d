build-vm/engine/spec.o: src/engine/spec.c src/engine/spec.h \
 src/engine/engine.h src/probe.h src/record.h src/util/log.h
src/engine/spec.h:
src/engine/engine.h:
src/probe.h:
src/record.h:
src/util/log.h:
