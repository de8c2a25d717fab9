build-vm/cmd/doctor.o: src/cmd/doctor.c src/capture/features.h \
 src/cmd/cmd.h src/engine/engine.h src/probe.h src/record.h \
 src/target/process.h src/record.h src/util/envhash.h src/util/log.h \
 src/util/parse.h
src/capture/features.h:
src/cmd/cmd.h:
src/engine/engine.h:
src/probe.h:
src/record.h:
src/target/process.h:
src/record.h:
src/util/envhash.h:
src/util/log.h:
src/util/parse.h:
