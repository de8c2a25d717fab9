build-vm/capture/ring.o: src/capture/ring.c src/capture/ring.h \
 src/record.h src/probe.h src/record.h
src/capture/ring.h:
src/record.h:
src/probe.h:
src/record.h:
