build-vm/engine/fetch.o: src/engine/fetch.c src/engine/engine.h \
 src/probe.h src/record.h
src/engine/engine.h:
src/probe.h:
src/record.h:
