build-vm/capture/session.o: src/capture/session.c src/capture/session.h \
 src/capture/attach.h src/engine/engine.h src/probe.h src/record.h \
 src/capture/ring.h src/record.h build-vm/inftrace.skel.h src/util/log.h \
 src/util/names.h
src/capture/session.h:
src/capture/attach.h:
src/engine/engine.h:
src/probe.h:
src/record.h:
src/capture/ring.h:
src/record.h:
build-vm/inftrace.skel.h:
src/util/log.h:
src/util/names.h:
